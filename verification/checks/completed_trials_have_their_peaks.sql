-- Proves: a completed trial has allocator peaks, and where samples were taken the device's peak too.
SELECT trial_id, sample_count, peak_device_used_bytes, peak_reserved_bytes, peak_allocated_bytes
FROM trials
WHERE failure_class IS NULL
  AND (peak_reserved_bytes IS NULL OR peak_allocated_bytes IS NULL
       OR (sample_count > 0 AND device <> 'cpu' AND peak_device_used_bytes IS NULL))
