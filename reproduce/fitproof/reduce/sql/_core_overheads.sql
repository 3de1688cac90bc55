-- Grain: eligible attempt with a process-used sample in the rest after a stage end. Inputs: batch_events, batch_attempts,
-- core_samples (one batch). To a stage end belongs the first process-used sample at or after it, at most 50 ms later and
-- strictly before the attempt's next event other than a fact: nothing happens on the device meanwhile. A sample before the
-- end may still show what the stage released just then. An end without such a sample gives no difference; of the
-- differences to the event's reserved bytes the largest is the overhead. Left out: CPU trials, whose process used and
-- device used have different zeros.
WITH ordered AS (
    SELECT attempt_key, event, t_ns, reserved_bytes,
           count(*) FILTER (event IN ('stage_begin', 'stage_end', 'failure')) OVER w AS interval,
           coalesce(lead(t_ns) OVER w, 9223372036854775807) AS next_ns
    FROM batch_events SEMI JOIN (FROM batch_attempts WHERE NOT is_cpu) AS accelerated USING (attempt_key)
    WHERE event <> 'fact'
    WINDOW w AS (PARTITION BY attempt_key ORDER BY line)
), rests AS (  -- samples from a stage end to the next begin or failure are the interval that the end opens
    SELECT attempt_key, interval, arg_min(s.process_used_bytes - e.reserved_bytes, s.sample) AS difference
    FROM ordered AS e
    JOIN core_samples AS s USING (attempt_key, interval)
    WHERE e.event = 'stage_end' AND s.t_ns <= e.t_ns + 50000000 AND s.t_ns < e.next_ns
      AND s.process_used_bytes IS NOT NULL
    GROUP BY attempt_key, interval
)
SELECT attempt_key, max(difference) AS process_overhead_bytes
FROM rests GROUP BY attempt_key
