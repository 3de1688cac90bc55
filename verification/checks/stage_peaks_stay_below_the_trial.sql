-- Proves: no stage has a peak above its trial's, and one of them reaches it (reserved, allocated).
SELECT trial_id, max(s.peak_reserved_bytes) AS reserved, any_value(t.peak_reserved_bytes) AS of_trial
FROM trials t LEFT JOIN stage_peaks s USING (trial_id)
GROUP BY trial_id
HAVING max(s.peak_reserved_bytes) IS DISTINCT FROM any_value(t.peak_reserved_bytes)
    OR max(s.peak_allocated_bytes) IS DISTINCT FROM any_value(t.peak_allocated_bytes)
    OR max(s.peak_device_used_bytes) > any_value(t.peak_device_used_bytes)
    OR max(s.peak_process_used_bytes) > any_value(t.peak_process_used_bytes)
