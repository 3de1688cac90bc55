-- Grain: thinned sample of a trial. Inputs: core_thinned, core_trials. Parameter: archive, one file for each.
-- Left out: samples that the thinning drops (_core_thinned.sql); the archives have them all.
SELECT m.*, t.trial_id, m.elapsed_ns::DOUBLE / 1e9 AS elapsed_seconds
FROM core_thinned AS m
JOIN core_trials AS t USING (attempt_key)
WHERE t.archive = $archive
