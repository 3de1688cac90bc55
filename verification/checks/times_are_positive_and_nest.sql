-- Proves: time runs forward, stages fit into their trial, the trial into the time the device was held.
SELECT 'attempts' AS view, attempt_id AS id, wall_seconds, device_seconds
FROM attempts
WHERE wall_seconds <= 0 OR device_seconds < wall_seconds OR ended_at < started_at
UNION ALL
SELECT 'stage_peaks', trial_id, any_value(wall_seconds), sum(seconds)
FROM stage_peaks JOIN trials USING (trial_id)
GROUP BY trial_id
HAVING min(seconds) < 0 OR sum(seconds) > any_value(wall_seconds)
