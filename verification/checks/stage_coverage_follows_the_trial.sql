-- Proves: a completed trial has only completed stages; a failed one ended in at most one stage, the one it failed in.
SELECT trial_id, list(stage) FILTER (coverage <> 'completed') AS partial_stages, any_value(failure_stage) AS failure_stage
FROM stage_peaks s JOIN trials t USING (trial_id)
GROUP BY trial_id
HAVING count(*) FILTER (coverage <> 'completed') > any_value(CASE WHEN failure_class IS NULL THEN 0 ELSE 1 END)
    OR bool_or(coverage = 'terminal_partial' AND failure_stage IS NOT NULL AND stage <> failure_stage)
    OR bool_or((coverage = 'completed') <> (runs = completed_runs))
