-- Grain: planned slot, once per campaign and configuration (device, stack) that ran its panel. Inputs: raw_slots,
-- core_attempts, raw_settings. Left out: plans of which nothing was started.
-- Several archives may hold parts of one plan: a slot counts once.
WITH slots AS (
    SELECT panel, campaign, slot_id, configuration_id, min(slot_number) AS slot_number, min(seed) AS seed,
           min(estimate_seconds) AS estimate_seconds, min(device) AS device, min(settings_key) AS settings_key,
           min(plan_digest) AS plan_digest, min(predictions_digest) AS predictions_digest
    FROM raw_slots GROUP BY panel, campaign, slot_id, configuration_id
), outcomes AS (
    SELECT panel, campaign, slot_id, configuration_id, count(*) AS attempts,
           max(slot_key) FILTER (is_trial) AS trial_id,
           CASE WHEN bool_or(is_trial AND status = 'completed') THEN 'completed'
                WHEN bool_or(is_trial AND status = 'memory_failure') THEN 'failed'
                WHEN bool_or(status = 'ineligible') THEN 'ineligible'
                ELSE 'interrupted' END AS state
    FROM core_attempts GROUP BY panel, campaign, slot_id, configuration_id
)
SELECT s.*, g.model_id, g.workload, g.settings_id, coalesce(o.attempts, 0) AS attempts, o.trial_id,
       coalesce(o.state, 'not started') AS state
FROM slots AS s
JOIN raw_settings AS g USING (settings_key)
LEFT JOIN outcomes AS o USING (panel, campaign, slot_id, configuration_id)
