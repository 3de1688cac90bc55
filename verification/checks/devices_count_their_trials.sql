-- Proves: the trials that name a stack are as many as the stack says.
SELECT d.stack_id, d.trials AS told, count(t.trial_id) AS counted
FROM devices d LEFT JOIN trials t USING (stack_id)
GROUP BY ALL
HAVING d.trials <> count(t.trial_id) OR d.attempts < d.trials
