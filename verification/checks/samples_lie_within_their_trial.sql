-- Proves: samples of a trial stay inside it in number and time, and time does not run backwards.
SELECT trial_id, sample, elapsed_seconds, sample_count, device_seconds
FROM (SELECT *, lag(elapsed_seconds) OVER (PARTITION BY trial_id ORDER BY sample) AS before FROM memory_samples) m
JOIN trials t USING (trial_id)
WHERE sample NOT BETWEEN 0 AND sample_count - 1 OR elapsed_seconds < 0 OR elapsed_seconds > device_seconds
   OR before > elapsed_seconds OR (sample = 0) <> (elapsed_seconds = 0)
