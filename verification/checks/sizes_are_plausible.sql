-- Proves: no size is negative or beyond a petabyte, no peak of a completed trial is zero.
SELECT trial_id, peak_device_used_bytes, peak_reserved_bytes, peak_allocated_bytes, peak_process_used_bytes
FROM trials
WHERE least(peak_device_used_bytes, peak_reserved_bytes, peak_allocated_bytes, peak_process_used_bytes) < 0
   OR greatest(peak_device_used_bytes, peak_reserved_bytes, peak_allocated_bytes, peak_process_used_bytes) > 1e15
   OR (device <> 'cpu' AND least(peak_reserved_bytes, peak_allocated_bytes) <= 0)
