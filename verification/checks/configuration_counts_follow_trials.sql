-- Proves: the counts of a configuration are the counts of its first campaign.
WITH counted AS (
    SELECT c.configuration_id, count(t.trial_id) AS eligible, count(DISTINCT t.seed) AS seeds,
           count(*) FILTER (t.trial_id IS NOT NULL AND t.failure_class IS NULL) AS completed,
           count(*) FILTER (t.failure_class IS NOT NULL) AS failed,
           count(*) FILTER (t.state = 'above_margin') AS above
    FROM configurations c
    LEFT JOIN trials t ON t.configuration_id = c.configuration_id AND t.campaign = c.campaign
    GROUP BY ALL
)
SELECT configuration_id, eligible_trials, eligible, distinct_seeds, seeds, memory_failures, failed
FROM configurations JOIN counted USING (configuration_id)
WHERE (eligible_trials, distinct_seeds, completed_trials, memory_failures, above_margin_trials)
      IS DISTINCT FROM (eligible, seeds, completed, failed, above)
