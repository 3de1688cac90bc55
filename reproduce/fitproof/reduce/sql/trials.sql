-- Grain: trial. Inputs: core_trials, raw_settings, core_stacks. Left out: attempts that are no trials (view attempts).
SELECT t.* EXCLUDE (archive), t.archive, g.model_id, g.workload, g.settings_id, k.stack_id,
       t.wall_ns::DOUBLE / 1e9 AS wall_seconds,
       t.device_ns::DOUBLE / 1e9 AS device_seconds,
       t.sampler_interval_ns::DOUBLE / 1e9 AS sampler_interval_seconds,
       t.median_interval_ns::DOUBLE / 1e9 AS median_interval_seconds,
       t.max_interval_ns::DOUBLE / 1e9 AS max_interval_seconds
FROM core_trials AS t
JOIN raw_settings AS g USING (settings_key)
LEFT JOIN core_stacks AS k USING (attempt_key)
