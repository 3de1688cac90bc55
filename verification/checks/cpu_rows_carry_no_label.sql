-- Proves: a CPU row has no capacity, no limit and no label; a GPU trial has all it needs for one.
SELECT configuration_id, device, capacity_mib, capacity_source, limit_mib, label, single_run_state, is_within_5_percent
FROM configurations
WHERE device_kind = 'cpu'
  AND (coalesce(capacity_mib, limit_mib, min_effective_capacity_bytes) IS NOT NULL
       OR coalesce(capacity_source, label) IS NOT NULL
       OR is_within_5_percent IS NOT NULL)
UNION ALL
SELECT trial_id, device, capacity_mib, capacity_source, limit_bytes, state, NULL, is_within_5_percent
FROM trials
WHERE CASE WHEN device = 'cpu' THEN coalesce(capacity_mib, limit_bytes, effective_capacity_bytes) IS NOT NULL
           ELSE capacity_mib IS NULL OR limit_bytes IS NULL OR effective_capacity_bytes IS NULL OR capacity_source IS NULL END
