-- Proves: a resume is exact where trajectory, adapter, optimizer and state are equal; where one of the last three or the
-- adapter's loading is not, a difference is named. A trajectory may differ by its digests though nothing was named.
SELECT pair, engine, device, run, is_resume_exact, differences
FROM opd_workloads
WHERE is_resume_exact <> (is_trajectory_equal AND is_adapter_equal AND is_optimizer_equal AND is_state_equal)
   OR (differences IS NULL
       AND NOT (is_adapter_equal AND is_optimizer_equal AND is_state_equal AND coalesce(is_adapter_loadable, true)))
   OR (differences IS NOT NULL AND is_resume_exact AND coalesce(is_adapter_loadable, true))
