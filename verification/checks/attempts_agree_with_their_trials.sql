-- Proves: a trial and the attempt that it is tell the same story.
SELECT trial_id, a.attempt_id
FROM trials t JOIN attempts a USING (trial_id)
WHERE (t.configuration_id, t.settings_id, t.slot_id, t.panel, t.campaign, t.seed, t.archive, t.device)
      IS DISTINCT FROM (a.configuration_id, a.settings_id, a.slot_id, a.panel, a.campaign, a.seed, a.archive, a.device)
   OR (t.failure_class, t.failure_stage, t.wall_seconds, t.device_seconds, t.completed_steps, t.started_at)
      IS DISTINCT FROM (a.failure_class, a.failure_stage, a.wall_seconds, a.device_seconds, a.completed_steps, a.started_at)
   OR (a.status = 'memory_failure') IS DISTINCT FROM (t.failure_class IS NOT NULL)
