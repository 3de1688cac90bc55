-- Proves: imports, construction, first rollout and first update follow one another inside the whole, and nothing is
-- negative.
SELECT pair, engine, device, run, import_seconds, cold_start_seconds, first_rollout_seconds, first_update_seconds,
       recovery_pair_seconds
FROM opd_workloads
WHERE least(import_seconds, cold_start_seconds, resume_load_seconds, rollout_seconds, teacher_seconds, update_seconds) < 0
   OR cold_start_seconds > first_rollout_seconds OR first_rollout_seconds > first_update_seconds
   OR coalesce(import_seconds, 0) + coalesce(first_update_seconds, 0) > recovery_pair_seconds
   OR peak_allocated_bytes > peak_reserved_bytes OR downshifts < 0
