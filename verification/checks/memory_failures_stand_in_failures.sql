-- Proves: every memory failure has its row in failures, and no other trial has one.
SELECT coalesce(t.trial_id, f.trial_id) AS trial_id, t.state, t.failure_stage, f.stage
FROM (FROM trials WHERE state = 'memory_failure') t FULL JOIN failures f USING (trial_id)
WHERE t.trial_id IS NULL OR f.trial_id IS NULL
   OR (t.configuration_id, t.seed, t.failure_stage, t.effective_capacity_bytes)
      IS DISTINCT FROM (f.configuration_id, f.seed, f.stage, f.effective_capacity_bytes)
