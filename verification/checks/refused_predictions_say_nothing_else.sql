-- Proves: a refusal has no output, an answer has at least one, and a label agrees with whether the trial completes.
SELECT configuration_id, method, method_version, refusal, predicted_label, predicted_completes, predicted_failure_stage
FROM predictions
WHERE (refusal IS NULL) = (coalesce(predicted_label, predicted_completes::VARCHAR, predicted_peak_allocated_bytes::VARCHAR,
                                    predicted_peak_reserved_bytes::VARCHAR, predicted_peak_device_used_bytes::VARCHAR,
                                    predicted_smallest_capacity_bytes::VARCHAR) IS NULL)
   OR (predicted_label = 'memory_failure') = predicted_completes
   OR (predicted_completes AND predicted_failure_stage IS NOT NULL)
   OR lowest_peak_reserved_bytes > highest_peak_reserved_bytes
   OR predicted_peak_reserved_bytes NOT BETWEEN lowest_peak_reserved_bytes AND highest_peak_reserved_bytes
