-- Proves: every rate of a workload is its positions over the median seconds of that phase.
SELECT pair, engine, device, run, positions, rollout_seconds, teacher_seconds, update_seconds
FROM opd_workloads
WHERE rollout_tokens_per_second IS DISTINCT FROM positions / nullif(rollout_seconds, 0)
   OR teacher_positions_per_second IS DISTINCT FROM positions / nullif(teacher_seconds, 0)
   OR update_positions_per_second IS DISTINCT FROM positions / nullif(update_seconds, 0)
