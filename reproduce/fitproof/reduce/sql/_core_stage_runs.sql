-- Grain: run of a stage in a trial: from its begin to its end, or to where the trial ended. Inputs: raw_events,
-- core_attempts, core_interval_peaks. An unfinished run ends at the failure event, or else at the last event or sample.
WITH trials AS (
    SELECT attempt_key FROM core_attempts WHERE is_trial
), last_known AS (
    SELECT attempt_key, max(ns) AS ns
    FROM (SELECT attempt_key, t_ns AS ns FROM raw_events UNION ALL SELECT attempt_key, last_ns FROM core_interval_peaks)
    GROUP BY attempt_key
), boundaries AS (
    SELECT *, row_number() OVER w AS interval,
           lead(event) OVER w AS end_event, lead(t_ns) OVER w AS end_ns, lead(tokens) OVER w AS end_tokens,
           lead(peak_allocated_bytes) OVER w AS end_peak_allocated_bytes,
           lead(peak_reserved_bytes) OVER w AS end_peak_reserved_bytes
    FROM raw_events SEMI JOIN trials USING (attempt_key)
    WHERE event IN ('stage_begin', 'stage_end', 'failure')
    WINDOW w AS (PARTITION BY attempt_key ORDER BY line)
)
SELECT b.attempt_key, b.interval, b.stage, b.step,
       b.end_event IS NOT DISTINCT FROM 'stage_end' AS is_completed,
       coalesce(b.end_ns, l.ns) - b.t_ns AS duration_ns,
       b.end_tokens AS tokens,
       b.end_peak_allocated_bytes AS peak_allocated_bytes,
       b.end_peak_reserved_bytes AS peak_reserved_bytes
FROM boundaries AS b
LEFT JOIN last_known AS l USING (attempt_key)
WHERE b.event = 'stage_begin'
