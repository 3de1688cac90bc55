-- Proves: prediction_errors has a row for each prediction of a configuration with an eligible trial and no other; what was
-- predicted is as in predictions, what was measured as in configurations; each error is predicted / measured - 1, and null
-- with its measured value where a trial failed.
WITH measured AS (
    SELECT p.*, c.label, c.memory_failures > 0 AS failed, c.max_completed_allocated_mib * 1048576 AS allocated,
           c.max_completed_reserved_mib * 1048576 AS reserved, c.max_completed_peak_mib * 1048576 AS used
    FROM predictions p JOIN configurations c USING (configuration_id) WHERE c.eligible_trials > 0
)
SELECT coalesce(m.configuration_id, e.configuration_id) AS configuration_id, coalesce(m.method, e.method) AS method,
       e.reserved_error, e.device_used_error, e.allocated_error, m.failed
FROM measured m FULL JOIN prediction_errors e USING (configuration_id, method, method_version)
WHERE m.configuration_id IS NULL OR e.configuration_id IS NULL
   OR (m.predicted_label, m.predicted_completes, m.predicted_peak_allocated_bytes, m.predicted_peak_reserved_bytes,
       m.predicted_peak_device_used_bytes, m.predicted_smallest_capacity_bytes, m.predicted_peak_stage, m.frozen_at,
       m.is_latest, m.is_prospective)
      IS DISTINCT FROM
      (e.predicted_label, e.predicted_completes, e.predicted_peak_allocated_bytes, e.predicted_peak_reserved_bytes,
       e.predicted_peak_device_used_bytes, e.predicted_smallest_capacity_bytes, e.predicted_peak_stage, e.frozen_at,
       e.is_latest, e.is_prospective)
   OR e.measured_label IS DISTINCT FROM m.label
   OR e.is_label_right IS DISTINCT FROM CASE WHEN m.label <> 'unresolved' THEN e.predicted_label = m.label END
   OR e.measured_peak_allocated_bytes IS DISTINCT FROM CASE WHEN NOT m.failed THEN m.allocated END
   OR e.measured_peak_reserved_bytes IS DISTINCT FROM CASE WHEN NOT m.failed THEN m.reserved END
   OR e.measured_peak_device_used_bytes IS DISTINCT FROM CASE WHEN NOT m.failed THEN m.used END
   OR (e.allocated_error, e.reserved_error, e.device_used_error)
      IS DISTINCT FROM
      (e.predicted_peak_allocated_bytes / e.measured_peak_allocated_bytes - 1,
       e.predicted_peak_reserved_bytes / e.measured_peak_reserved_bytes - 1,
       e.predicted_peak_device_used_bytes / e.measured_peak_device_used_bytes - 1)
