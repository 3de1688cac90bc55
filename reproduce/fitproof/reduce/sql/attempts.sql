-- Grain: attempt. Inputs: core_attempts, raw_settings. Left out: nothing; this is the whole ledger.
SELECT a.*, g.model_id, g.workload, g.settings_id,
       CASE WHEN a.is_trial THEN a.slot_key END AS trial_id,
       a.device_ns::DOUBLE / 1e9 AS device_seconds,
       a.wall_ns::DOUBLE / 1e9 AS wall_seconds
FROM core_attempts AS a
JOIN raw_settings AS g USING (settings_key)
