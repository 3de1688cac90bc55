-- Proves: the steps of a stage add up to the stage (runs and tokens exactly, seconds to the microsecond), and a rate is
-- tokens over seconds.
WITH summed AS (
    SELECT trial_id, stage, sum(seconds) AS seconds, sum(tokens) AS tokens, sum(runs) AS runs
    FROM iteration_costs GROUP BY ALL
)
SELECT trial_id, stage, s.seconds, i.seconds AS summed, s.tokens, i.tokens AS summed_tokens
FROM stage_peaks s FULL JOIN summed i USING (trial_id, stage)
WHERE coalesce(i.runs, 0) IS DISTINCT FROM s.completed_runs OR i.tokens IS DISTINCT FROM s.tokens
   OR (s.coverage = 'completed' AND abs(s.seconds - i.seconds) > 1e-6)
UNION ALL
SELECT trial_id, stage, seconds, tokens_per_second, tokens, NULL
FROM iteration_costs
WHERE tokens_per_second IS DISTINCT FROM CASE WHEN seconds > 0 THEN tokens / seconds END
