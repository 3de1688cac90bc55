-- Grain: configuration that a plan holds whose panel was started. Inputs: raw_slots, raw_settings, core_attempts,
-- core_configurations. Left out: nothing; one without an attempt has zero counts and is unresolved.
-- No label on a CPU and below 4,096 MiB of asked capacity.
WITH planned AS (
    SELECT configuration_id, any_value(settings_key ORDER BY settings_key) AS settings_key,
           min(device) AS device, min(device_kind) AS device_kind, min(torch_version) AS torch_version,
           min(transformers_version) AS transformers_version,
           count(DISTINCT (panel, campaign, slot_id)) AS planned_slots
    FROM raw_slots GROUP BY configuration_id
), panels AS (  -- the panel that started first, its own attempts whatever their configuration
    SELECT s.configuration_id, s.panel
    FROM (SELECT DISTINCT configuration_id, panel, campaign FROM raw_slots) AS s
    JOIN (SELECT panel, campaign, min(started_at) AS started_at FROM core_attempts GROUP BY panel, campaign) AS p
    USING (panel, campaign)
    QUALIFY row_number() OVER (PARTITION BY s.configuration_id ORDER BY p.started_at, s.panel) = 1
), joined AS (
    SELECT p.*, n.panel, g.* EXCLUDE (settings_key, capacity_mib, capacity_source),
           coalesce(c.capacity_mib, c.started_capacity_mib, CASE WHEN p.device_kind <> 'cpu' THEN g.capacity_mib END)
               AS capacity_mib,
           CASE WHEN p.device_kind <> 'cpu' THEN g.capacity_source END AS capacity_source,
           c.* EXCLUDE (configuration_id, capacity_mib, label)
           REPLACE (coalesce(c.attempts, 0) AS attempts, coalesce(c.campaigns, 0) AS campaigns,
                    coalesce(c.eligible_trials, 0) AS eligible_trials, coalesce(c.distinct_seeds, 0) AS distinct_seeds,
                    coalesce(c.completed_trials, 0) AS completed_trials,
                    coalesce(c.memory_failures, 0) AS memory_failures,
                    coalesce(c.above_margin_trials, 0) AS above_margin_trials),
           coalesce(c.label, 'unresolved') AS possible_label
    FROM planned AS p
    JOIN raw_settings AS g USING (settings_key)
    JOIN panels AS n USING (configuration_id)
    LEFT JOIN core_configurations AS c USING (configuration_id)
)
SELECT *,
       CASE WHEN device_kind = 'cpu' OR capacity_mib < 4096 OR is_without_label THEN NULL ELSE possible_label END AS label,
       limit_bytes::DOUBLE / 1048576 AS limit_mib,
       max_device_used_bytes::DOUBLE / 1048576 AS max_completed_peak_mib,
       max_reserved_bytes::DOUBLE / 1048576 AS max_completed_reserved_mib,
       max_allocated_bytes::DOUBLE / 1048576 AS max_completed_allocated_mib,
       max_process_used_bytes::DOUBLE / 1048576 AS max_completed_process_mib
FROM joined
