-- Grain: attempt with a process-used sample in the rest after a stage end. Inputs: raw_events, raw_trials,
-- core_interval_peaks. To a stage end belongs the first process-used sample at or after it, at most 50 ms later and
-- strictly before the attempt's next event other than a fact: nothing happens on the device meanwhile. A sample before the
-- end may still show what the stage released just then. An end without such a sample gives no difference; of the
-- differences to the event's reserved bytes the largest is the overhead. Left out: CPU trials, whose process used and
-- device used have different zeros.
WITH ordered AS (
    SELECT attempt_key, event, t_ns, reserved_bytes,
           count(*) FILTER (event IN ('stage_begin', 'stage_end', 'failure')) OVER w AS interval,
           coalesce(lead(t_ns) OVER w, 9223372036854775807) AS next_ns
    FROM raw_events SEMI JOIN (FROM raw_trials WHERE device_kind <> 'cpu') AS accelerated USING (attempt_key)
    WHERE event <> 'fact'
    WINDOW w AS (PARTITION BY attempt_key ORDER BY line)
)
SELECT attempt_key, max(p.first_process_used_bytes - e.reserved_bytes) AS process_overhead_bytes
FROM ordered AS e
JOIN core_interval_peaks AS p USING (attempt_key, interval)  -- the interval that the end opens: up to the next boundary
WHERE e.event = 'stage_end' AND p.first_process_ns <= e.t_ns + 50000000 AND p.first_process_ns < e.next_ns
GROUP BY attempt_key
