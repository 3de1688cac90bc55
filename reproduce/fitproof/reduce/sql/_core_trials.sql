-- Grain: trial. Inputs: core_attempts, raw_trials, raw_events, core_stage_runs, core_interval_peaks, core_overheads.
-- Peaks are as observed, also for memory failures. Device used is the larger of its largest sample and peak reserved plus
-- process overhead; without overhead (no process-used samples, or a CPU) only the sample counts.
-- State is against the trial's own limit: effective capacity minus 2,048 MiB (2,147,483,648 bytes), inclusive, whatever the
-- capacity. Without capacity (on a CPU) or peak it is null, unless the trial failed.
WITH samples AS (
    SELECT attempt_key, max(device_used_bytes) AS device_used_bytes, max(process_used_bytes) AS process_used_bytes,
           sum(samples)::BIGINT AS samples
    FROM core_interval_peaks GROUP BY attempt_key
), stages AS (
    SELECT attempt_key, max(peak_allocated_bytes) AS peak_allocated_bytes, max(peak_reserved_bytes) AS peak_reserved_bytes
    FROM core_stage_runs GROUP BY attempt_key
), facts AS (
    SELECT attempt_key,
           max(value_int) FILTER (name = 'kv_pool_bytes') AS kv_pool_bytes,
           max(value_int) FILTER (name = 'parameters') AS parameters,
           max(value_int) FILTER (name = 'trainable_parameters') AS trainable_parameters,
           arg_min(value_int, line) FILTER (name = 'baseline_process_bytes') AS baseline_process_bytes,
           min(logits_chunk) FILTER (event = 'downshift') AS smallest_logits_chunk,
           max(alloc_retries) AS alloc_retries
    FROM raw_events GROUP BY attempt_key
), peaks AS (
    SELECT a.*, t.effective_capacity_bytes, t.ballast_bytes, t.weights, t.revision, t.start_method, t.capacity_mib,
           t.capacity_source, t.sampler_interval_ns,
           CASE WHEN t.device_kind = 'cpu' THEN f.baseline_process_bytes ELSE t.baseline_used_bytes END
               AS baseline_used_bytes,
           t.effective_capacity_bytes - 2147483648 AS limit_bytes,
           coalesce(s.samples, 0) AS sample_count,
           s.device_used_bytes AS largest_device_used_sample_bytes,
           s.process_used_bytes AS peak_process_used_bytes,
           g.peak_allocated_bytes, g.peak_reserved_bytes, o.process_overhead_bytes,
           g.peak_reserved_bytes + o.process_overhead_bytes AS reserved_plus_overhead_bytes,
           greatest(s.device_used_bytes, g.peak_reserved_bytes + o.process_overhead_bytes) AS peak_device_used_bytes,
           f.kv_pool_bytes, f.parameters, f.trainable_parameters, f.smallest_logits_chunk, f.alloc_retries
    FROM core_attempts AS a
    JOIN raw_trials AS t USING (attempt_key)
    LEFT JOIN samples AS s USING (attempt_key)
    LEFT JOIN stages AS g USING (attempt_key)
    LEFT JOIN facts AS f USING (attempt_key)
    LEFT JOIN core_overheads AS o USING (attempt_key)
    WHERE a.is_trial
)
SELECT *,
       slot_key AS trial_id,
       CASE WHEN status = 'memory_failure' THEN 'memory_failure'
            WHEN peak_device_used_bytes <= limit_bytes THEN 'within_margin'
            WHEN peak_device_used_bytes > limit_bytes THEN 'above_margin' END AS state,
       CASE WHEN status = 'memory_failure' THEN false
            ELSE 20 * peak_device_used_bytes <= 19 * effective_capacity_bytes END AS is_within_5_percent
FROM peaks
