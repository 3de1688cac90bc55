-- Proves: the state of a planned slot is what its attempts say.
WITH told AS (
    SELECT panel, campaign, slot_id, configuration_id,
           bool_or(status = 'completed') AS completed, bool_or(status = 'memory_failure') AS failed,
           arg_max(status, attempt_number) AS last_status, max(trial_id) AS trial_id
    FROM attempts GROUP BY ALL
)
SELECT panel, campaign, slot_id, s.state, t.last_status
FROM panel_slots s LEFT JOIN told t USING (panel, campaign, slot_id, configuration_id)
WHERE s.state IS DISTINCT FROM CASE WHEN t.completed THEN 'completed' WHEN t.failed THEN 'failed'
                                    WHEN t.last_status IS NULL THEN 'not started' ELSE t.last_status END
   OR s.trial_id IS DISTINCT FROM t.trial_id
