-- Proves: at a failure the allocator held what it says: allocated <= reserved <= the stage's peak, nothing is negative.
SELECT trial_id, requested_bytes, free_bytes, reclaimable_bytes, allocated_bytes, reserved_bytes, stage_peak_reserved_bytes
FROM failures
WHERE allocated_bytes > reserved_bytes OR reserved_bytes > stage_peak_reserved_bytes
   OR allocated_bytes > stage_peak_allocated_bytes OR requested_bytes <= 0
   OR least(free_bytes, reclaimable_bytes, allocated_bytes, alloc_retries, oom_count) < 0
