-- Proves: the peak of device used is the larger of the largest sample and reserved + overhead, both parts being columns.
SELECT 'trials' AS view, trial_id, NULL AS stage, peak_device_used_bytes
FROM trials
WHERE peak_device_used_bytes IS DISTINCT FROM greatest(largest_device_used_sample_bytes, reserved_plus_overhead_bytes)
   OR reserved_plus_overhead_bytes IS DISTINCT FROM peak_reserved_bytes + process_overhead_bytes
UNION ALL
SELECT 'stage_peaks', trial_id, stage, s.peak_device_used_bytes
FROM stage_peaks s JOIN trials t USING (trial_id)
WHERE s.peak_device_used_bytes IS DISTINCT FROM
      greatest(s.largest_device_used_sample_bytes, s.reserved_plus_overhead_bytes)
   OR s.reserved_plus_overhead_bytes IS DISTINCT FROM s.peak_reserved_bytes + t.process_overhead_bytes
