-- Proves: the operating limit is the effective capacity minus 2,048 MiB, and 5 % are counted from the same capacity.
SELECT trial_id, effective_capacity_bytes, limit_bytes, is_within_5_percent
FROM trials
WHERE limit_bytes IS DISTINCT FROM effective_capacity_bytes - 2147483648
   OR is_within_5_percent IS DISTINCT FROM
      CASE WHEN failure_class IS NOT NULL THEN false
           WHEN effective_capacity_bytes IS NULL THEN NULL
           ELSE peak_device_used_bytes * 100 <= effective_capacity_bytes * 95 END
