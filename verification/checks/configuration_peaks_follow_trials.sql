-- Proves: the peaks of a configuration are those of its completed trials, MiB = bytes / 1,048,576; its smallest effective
-- capacity and the 5 % are over all its eligible trials.
WITH largest AS (
    SELECT c.configuration_id, count(t.trial_id) AS trials,
           max(peak_device_used_bytes) FILTER (failure_class IS NULL) AS used,
           max(peak_reserved_bytes) FILTER (failure_class IS NULL) AS reserved,
           max(peak_allocated_bytes) FILTER (failure_class IS NULL) AS allocated,
           max(peak_process_used_bytes) FILTER (failure_class IS NULL) AS process,
           min(effective_capacity_bytes) AS capacity,
           bool_and(t.is_within_5_percent) AS all_known_within, count(t.is_within_5_percent) AS known
    FROM configurations c
    LEFT JOIN trials t ON t.configuration_id = c.configuration_id AND t.campaign = c.campaign
    GROUP BY ALL
)
SELECT configuration_id, max_completed_peak_mib, used, max_completed_reserved_mib, reserved, is_within_5_percent
FROM configurations JOIN largest USING (configuration_id)
WHERE (max_completed_peak_mib, max_completed_reserved_mib, max_completed_allocated_mib, max_completed_process_mib)
      IS DISTINCT FROM (used::DOUBLE / 1048576, reserved::DOUBLE / 1048576, allocated::DOUBLE / 1048576,
                        process::DOUBLE / 1048576)
   OR min_effective_capacity_bytes IS DISTINCT FROM capacity
   OR is_within_5_percent IS DISTINCT FROM
      CASE WHEN NOT all_known_within THEN false WHEN known = trials THEN all_known_within END
