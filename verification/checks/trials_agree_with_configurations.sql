-- Proves: what a trial, attempt or slot repeats of its configuration is what the configuration says.
SELECT 'trials' AS view, trial_id AS id FROM trials t JOIN configurations c USING (configuration_id)
WHERE (t.model_id, t.workload, t.capacity_mib, t.device, t.settings_id)
      IS DISTINCT FROM (c.model_id, c.workload, c.capacity_mib, c.device, c.settings_id)
UNION ALL
SELECT 'attempts', attempt_id FROM attempts a JOIN configurations c USING (configuration_id)
WHERE (a.model_id, a.workload, a.device, a.settings_id) IS DISTINCT FROM (c.model_id, c.workload, c.device, c.settings_id)
UNION ALL
SELECT 'panel_slots', slot_id FROM panel_slots s JOIN configurations c USING (configuration_id)
WHERE (s.model_id, s.workload, s.device, s.settings_id) IS DISTINCT FROM (c.model_id, c.workload, c.device, c.settings_id)
