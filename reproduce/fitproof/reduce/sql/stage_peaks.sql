-- Grain: stage of a trial, all its runs together. Inputs: core_stage_runs, core_interval_peaks, core_trials.
-- A stage inside which the trial ended is terminal_partial, its completed runs included. The trial's process overhead is
-- added to the stage's peak reserved: the largest over the stages is then the trial's own number.
WITH runs AS (
    SELECT r.*, p.device_used_bytes, p.process_used_bytes, coalesce(p.samples, 0) AS samples
    FROM core_stage_runs AS r
    LEFT JOIN core_interval_peaks AS p USING (attempt_key, interval)
), stages AS (
    SELECT attempt_key, stage,
           bool_and(is_completed) AS is_completed,
           max(device_used_bytes) AS largest_device_used_sample_bytes,
           max(process_used_bytes) AS peak_process_used_bytes,
           max(peak_reserved_bytes) AS peak_reserved_bytes,
           max(peak_allocated_bytes) AS peak_allocated_bytes,
           sum(duration_ns)::BIGINT AS duration_ns,
           count(*) AS runs,
           count(*) FILTER (is_completed) AS completed_runs,
           sum(tokens)::BIGINT AS tokens,
           sum(samples)::BIGINT AS sample_count
    FROM runs GROUP BY attempt_key, stage
)
SELECT s.* EXCLUDE (is_completed), t.trial_id, t.configuration_id,
       CASE WHEN s.is_completed THEN 'completed' ELSE 'terminal_partial' END AS coverage,
       s.peak_reserved_bytes + t.process_overhead_bytes AS reserved_plus_overhead_bytes,
       greatest(s.largest_device_used_sample_bytes, s.peak_reserved_bytes + t.process_overhead_bytes)
           AS peak_device_used_bytes,
       s.duration_ns::DOUBLE / 1e9 AS seconds
FROM stages AS s
JOIN core_trials AS t USING (attempt_key)
