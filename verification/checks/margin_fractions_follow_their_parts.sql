-- Proves: margin_fraction of a completed configuration is the smaller distance of its peak from the limit and of its
-- capacity from the smallest capacity, over the capacity; of a failed one what the failed request lacked, over the capacity.
-- A bisected boundary has a failure and a completion of the same settings on its two sides, at most 2 % apart.
WITH shortfalls AS (
    SELECT f.configuration_id, f.requested_bytes - f.free_bytes - f.reclaimable_bytes AS shortfall
    FROM failures f
    JOIN trials t USING (trial_id)
    JOIN configurations c ON c.configuration_id = t.configuration_id AND c.campaign = t.campaign
    QUALIFY row_number() OVER (PARTITION BY f.configuration_id ORDER BY t.seed, t.panel, t.slot_id) = 1
), smallest AS (
    SELECT configuration_id, predicted_smallest_capacity_bytes AS own FROM predictions WHERE method = 'dry_run' AND is_latest
), parts AS (
    SELECT e.*, c.min_effective_capacity_bytes AS capacity, c.memory_failures > 0 AS failed, s.shortfall,
           coalesce(e.measured_completes_at_bytes, e.predicted_smallest_capacity_bytes, d.own) AS least
    FROM prediction_errors e
    JOIN configurations c USING (configuration_id)
    LEFT JOIN shortfalls s USING (configuration_id)
    LEFT JOIN smallest d USING (configuration_id)
)
SELECT configuration_id, method, method_version, margin_fraction, measured_fails_at_bytes, measured_completes_at_bytes
FROM parts
WHERE margin_fraction IS DISTINCT FROM
      CASE WHEN failed THEN shortfall / capacity
           WHEN least IS NOT NULL THEN least(abs(measured_peak_device_used_bytes - (capacity - 2147483648)),
                                             abs(capacity - least)) / capacity END
   OR (measured_fails_at_bytes IS NULL) <> (measured_completes_at_bytes IS NULL)
   OR measured_fails_at_bytes >= measured_completes_at_bytes
   OR 50 * (measured_completes_at_bytes - measured_fails_at_bytes) > measured_completes_at_bytes
   OR smallest_capacity_error IS DISTINCT FROM predicted_smallest_capacity_bytes / measured_completes_at_bytes - 1
   OR (measured_fails_at_bytes IS NOT NULL AND NOT EXISTS (
       FROM configurations c WHERE c.settings_id = parts.settings_id AND c.memory_failures > 0
       AND c.min_effective_capacity_bytes = measured_fails_at_bytes))
