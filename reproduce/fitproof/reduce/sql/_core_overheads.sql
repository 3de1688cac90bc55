-- Grain: eligible attempt with at least one stage end that has a process-used sample within 50 ms. Inputs: batch_events,
-- core_samples (one batch), raw_trials. At each stage end the nearest such sample counts, the earlier of two equally near;
-- of the differences to the event's reserved bytes the largest is the overhead.
-- Left out: CPU trials, whose process used and device used have different zeros.
WITH nearest AS (
    SELECT e.attempt_key, s.process_used_bytes - e.reserved_bytes AS difference
    FROM batch_events AS e
    JOIN core_samples AS s
      ON s.attempt_key = e.attempt_key AND s.t_ns BETWEEN e.t_ns - 50000000 AND e.t_ns + 50000000
    WHERE e.event = 'stage_end' AND s.process_used_bytes IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY e.attempt_key, e.line ORDER BY abs(s.t_ns - e.t_ns), s.sample) = 1
)
SELECT attempt_key, max(difference) AS process_overhead_bytes
FROM nearest
SEMI JOIN (FROM raw_trials WHERE device_kind <> 'cpu') AS accelerated USING (attempt_key)
GROUP BY attempt_key
