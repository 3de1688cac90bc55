-- Grain: memory failure. Inputs: core_trials, raw_events, raw_settings. Left out: failures of any other class (view attempts).
-- The last failure event of the child, where it could write one; the diagnosis is the supervisor's.
WITH events AS (
    SELECT * FROM raw_events WHERE event = 'failure'
    QUALIFY row_number() OVER (PARTITION BY attempt_key ORDER BY line DESC) = 1
)
SELECT t.trial_id, t.configuration_id, t.capacity_mib, t.seed, t.device, t.evidence, t.exit_code, t.signal,
       t.largest_device_used_sample_bytes, t.effective_capacity_bytes, g.model_id, g.workload,
       coalesce(t.failure_stage, e.stage) AS stage, e.step,
       e.requested_alloc_bytes AS requested_bytes, e.device_free_bytes AS free_bytes, e.reclaimable_bytes,
       e.allocated_bytes, e.reserved_bytes, e.peak_allocated_bytes AS stage_peak_allocated_bytes,
       e.peak_reserved_bytes AS stage_peak_reserved_bytes, e.alloc_retries, e.oom_count,
       array_to_string(e.exception_types, ' > ') AS exception_types
FROM core_trials AS t
JOIN raw_settings AS g USING (settings_key)
LEFT JOIN events AS e USING (attempt_key)
WHERE t.status = 'memory_failure'
