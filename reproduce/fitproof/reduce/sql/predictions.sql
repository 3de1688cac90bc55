-- Grain: configuration x method x method version, measured or not. Inputs: core_predictions, raw_settings.
SELECT p.* EXCLUDE (torch, transformers),
       g.model_id, g.model_family, g.workload, g.algorithm, g.adaptation, g.capacity_mib,
       p.torch AS torch_version, p.transformers AS transformers_version,
       p.label AS predicted_label,
       p.completes AS predicted_completes,
       p.failure_stage AS predicted_failure_stage,
       p.failure AS predicted_failure,
       p.peak_allocated_bytes AS predicted_peak_allocated_bytes,
       p.peak_reserved_bytes AS predicted_peak_reserved_bytes,
       p.peak_device_used_bytes AS predicted_peak_device_used_bytes,
       p.smallest_capacity_bytes AS predicted_smallest_capacity_bytes,
       p.smallest_without_retries_bytes AS predicted_smallest_without_retries_bytes,
       p.alloc_retries AS predicted_alloc_retries,
       p.peak_stage AS predicted_peak_stage
FROM core_predictions AS p
JOIN raw_settings AS g USING (settings_key)
