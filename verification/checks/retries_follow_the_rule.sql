-- Proves: nothing follows an eligible attempt; memory, dependency, data and unknown failures are never retried; an
-- infrastructure failure is replaced at most once. Interrupted attempts do not count.
WITH ordered AS (
    SELECT *, lead(status) OVER slot AS next_status,
           count(*) FILTER (status = 'ineligible') OVER (slot ROWS UNBOUNDED PRECEDING) AS failures_so_far
    FROM attempts
    WINDOW slot AS (PARTITION BY panel, campaign, slot_id, configuration_id ORDER BY attempt_number)
)
SELECT attempt_id, status, failure_class, next_status, failures_so_far
FROM ordered
WHERE next_status IS NOT NULL
  AND (status IN ('completed', 'memory_failure')
       OR (status = 'ineligible' AND failure_class NOT IN ('device_fault', 'host_memory', 'timeout', 'harness'))
       OR (status = 'ineligible' AND failures_so_far > 1))
