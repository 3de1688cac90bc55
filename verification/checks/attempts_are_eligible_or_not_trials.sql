-- Proves: an attempt is a trial exactly where its status is eligible, and every trial is one attempt.
SELECT a.attempt_id, a.status, a.trial_id, t.attempt_id AS attempt_of_trial
FROM attempts a FULL JOIN trials t ON a.trial_id = t.trial_id
WHERE (a.status IN ('completed', 'memory_failure')) IS DISTINCT FROM (t.trial_id IS NOT NULL)
   OR (a.trial_id IS NOT NULL AND a.attempt_id IS DISTINCT FROM t.attempt_id)
