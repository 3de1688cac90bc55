-- Grain: eligible attempt with at least one stage end that has a process-used sample within 50 ms. Inputs: batch_events,
-- batch_attempts, core_samples (one batch). At each stage end the nearest such sample counts, the earlier of two equally near
-- (distance * 2^32 + sample orders by both; a trace has fewer than 2^32 rows); of the differences to the event's reserved
-- bytes the largest is the overhead. Left out: CPU trials, whose process used and device used have different zeros.
WITH ends AS (
    SELECT attempt_key, line, t_ns, reserved_bytes
    FROM batch_events SEMI JOIN (FROM batch_attempts WHERE NOT is_cpu) AS accelerated USING (attempt_key)
    WHERE event = 'stage_end'
), nearest AS (
    SELECT e.attempt_key, e.line,
           arg_min(s.process_used_bytes - e.reserved_bytes, abs(s.t_ns - e.t_ns) * 4294967296 + s.sample) AS difference
    FROM ends AS e
    JOIN core_samples AS s
      ON s.attempt_key = e.attempt_key AND s.t_ns BETWEEN e.t_ns - 50000000 AND e.t_ns + 50000000
    WHERE s.process_used_bytes IS NOT NULL
    GROUP BY e.attempt_key, e.line
)
SELECT attempt_key, max(difference) AS process_overhead_bytes
FROM nearest GROUP BY attempt_key
