-- Proves: allocated <= reserved everywhere; on a GPU reserved <= device used wherever the overhead is known.
WITH peaks AS (
    SELECT trial_id, NULL AS stage, device, process_overhead_bytes AS overhead,
           peak_allocated_bytes AS allocated, peak_reserved_bytes AS reserved, peak_device_used_bytes AS used
    FROM trials
    UNION ALL
    SELECT trial_id, stage, device, process_overhead_bytes,
           s.peak_allocated_bytes, s.peak_reserved_bytes, s.peak_device_used_bytes
    FROM stage_peaks s JOIN trials USING (trial_id)
)
FROM peaks
WHERE allocated > reserved OR (device <> 'cpu' AND overhead IS NOT NULL AND reserved > used)
