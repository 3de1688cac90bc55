-- Proves: the peaks and the limit of a configuration are those of its completed trials, MiB = bytes / 1,048,576.
WITH largest AS (
    SELECT c.configuration_id, max(peak_device_used_bytes) AS used, max(peak_reserved_bytes) AS reserved,
           max(peak_allocated_bytes) AS allocated, max(peak_process_used_bytes) AS process
    FROM configurations c
    LEFT JOIN trials t
        ON t.configuration_id = c.configuration_id AND t.campaign = c.campaign AND t.failure_class IS NULL
    GROUP BY ALL
)
SELECT configuration_id, max_completed_peak_mib, used, max_completed_reserved_mib, reserved
FROM configurations JOIN largest USING (configuration_id)
WHERE (max_completed_peak_mib, max_completed_reserved_mib, max_completed_allocated_mib, max_completed_process_mib)
      IS DISTINCT FROM (used::DOUBLE / 1048576, reserved::DOUBLE / 1048576, allocated::DOUBLE / 1048576,
                        process::DOUBLE / 1048576)
   OR limit_mib IS DISTINCT FROM (min_effective_capacity_bytes - 2048 * 1048576)::DOUBLE / 1048576
