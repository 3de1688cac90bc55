-- Grain: completed stage of one step of a trial. Inputs: core_stage_runs, core_trials. Left out: the run in which a trial
-- ended, which says nothing about the cost of a whole one. Rates without tokens or time are null.
WITH costs AS (
    SELECT attempt_key, step, stage, sum(duration_ns)::BIGINT AS duration_ns, sum(tokens)::BIGINT AS tokens,
           count(*) AS runs
    FROM core_stage_runs WHERE is_completed
    GROUP BY attempt_key, step, stage
)
SELECT c.*, t.trial_id, t.configuration_id, c.duration_ns::DOUBLE / 1e9 AS seconds,
       c.tokens::DOUBLE / nullif(c.duration_ns::DOUBLE / 1e9, 0) AS tokens_per_second
FROM costs AS c
JOIN core_trials AS t USING (attempt_key)
