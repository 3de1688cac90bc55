-- Proves: only what failed has a class, and device_memory is the class of memory failures and of nothing else.
SELECT attempt_id, status, failure_class, reason
FROM attempts
WHERE CASE status
          WHEN 'completed' THEN failure_class IS NOT NULL
          WHEN 'memory_failure' THEN failure_class IS DISTINCT FROM 'device_memory'
          WHEN 'ineligible' THEN failure_class IS NULL OR failure_class = 'device_memory' OR reason IS NULL
          WHEN 'interrupted' THEN failure_class IS NOT NULL
          ELSE true
      END
