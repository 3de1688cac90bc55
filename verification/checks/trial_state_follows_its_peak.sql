-- Proves: the state of a trial is its failure, or its peak of device used against its own operating limit (inclusive).
SELECT trial_id, state, failure_class, peak_device_used_bytes, limit_bytes
FROM trials
WHERE state IS DISTINCT FROM
      CASE WHEN failure_class IS NOT NULL THEN 'memory_failure'
           WHEN limit_bytes IS NULL OR peak_device_used_bytes IS NULL THEN NULL
           WHEN peak_device_used_bytes <= limit_bytes THEN 'within_margin'
           ELSE 'above_margin' END
