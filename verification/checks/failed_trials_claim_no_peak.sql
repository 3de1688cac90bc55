-- Proves: what a failed run held is not given as what it needs; a completed trial has its allocator peaks.
SELECT trial_id, state, peak_device_used_bytes, peak_process_used_bytes, peak_reserved_bytes, peak_allocated_bytes
FROM trials
WHERE CASE WHEN failure_class IS NOT NULL
           THEN coalesce(peak_device_used_bytes, peak_process_used_bytes, peak_reserved_bytes, peak_allocated_bytes) IS NOT NULL
           ELSE peak_reserved_bytes IS NULL OR peak_allocated_bytes IS NULL
      END
