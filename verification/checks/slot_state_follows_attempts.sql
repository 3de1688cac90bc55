-- Proves: the state of a planned slot, and its trial, are what its attempts say.
WITH told AS (
    SELECT panel, campaign, slot_id, configuration_id,
           bool_or(status = 'completed') AS completed, bool_or(status = 'memory_failure') AS failed,
           bool_or(status = 'ineligible') AS ineligible, count(*) AS attempts, max(trial_id) AS trial_id
    FROM attempts GROUP BY ALL
)
SELECT panel, campaign, slot_id, s.state, s.trial_id, t.trial_id AS trial_of_attempts
FROM panel_slots s LEFT JOIN told t USING (panel, campaign, slot_id, configuration_id)
WHERE s.state IS DISTINCT FROM CASE WHEN t.attempts IS NULL THEN 'not started' WHEN t.completed THEN 'completed'
                                    WHEN t.failed THEN 'failed' WHEN t.ineligible THEN 'ineligible'
                                    ELSE 'interrupted' END
   OR s.trial_id IS DISTINCT FROM t.trial_id
