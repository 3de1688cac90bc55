-- Grain: settings, steps, devices, device name and stack whose smallest capacity was bisected by trials. Inputs:
-- core_configurations, raw_slots, raw_settings. Left out: settings with kv_reservation, whose pool is another at every
-- capacity; pairs of capacities that lie more than 2 % of the larger apart.
-- completes_at_bytes: smallest effective capacity without a memory failure; fails_at_bytes: largest one below it with one.
WITH measured AS (
    SELECT c.configuration_id, c.min_effective_capacity_bytes AS capacity_bytes, c.memory_failures > 0 AS failed,
           g.settings_id, g.total_training_steps, g.gpu_count, p.device, p.torch_version, p.transformers_version
    FROM core_configurations AS c
    JOIN (SELECT DISTINCT configuration_id, settings_key, device, torch_version, transformers_version FROM raw_slots) AS p
    USING (configuration_id)
    JOIN raw_settings AS g USING (settings_key)
    WHERE c.eligible_trials > 0 AND c.min_effective_capacity_bytes IS NOT NULL AND g.kv_reservation IS NULL
), smallest AS (
    SELECT *, min(capacity_bytes) FILTER (NOT failed) OVER (
        PARTITION BY settings_id, total_training_steps, gpu_count, device, torch_version, transformers_version
    ) AS completes_at_bytes
    FROM measured
)
SELECT settings_id, total_training_steps, gpu_count, device, torch_version, transformers_version, completes_at_bytes,
       max(capacity_bytes) FILTER (failed AND capacity_bytes < completes_at_bytes) AS fails_at_bytes
FROM smallest
WHERE completes_at_bytes IS NOT NULL
GROUP BY ALL
HAVING 50 * (completes_at_bytes - fails_at_bytes) <= completes_at_bytes
