-- Proves: thinning loses neither end of a trace nor its maximum, for the trial and for each of its stages.
WITH kept AS (
    SELECT trial_id, min(sample) AS first, max(sample) AS last, max(device_used_bytes) AS used,
           max(process_used_bytes) AS process
    FROM memory_samples GROUP BY trial_id
),
by_stage AS (
    SELECT trial_id, stage, max(device_used_bytes) AS used, max(process_used_bytes) AS process
    FROM memory_samples WHERE stage IS NOT NULL GROUP BY ALL
)
SELECT trial_id, NULL AS stage, t.sample_count, k.first, k.last, t.largest_device_used_sample_bytes AS told, k.used AS kept
FROM trials t LEFT JOIN kept k USING (trial_id)
WHERE t.sample_count > 0
  AND (k.first IS DISTINCT FROM 0 OR k.last IS DISTINCT FROM t.sample_count - 1
       OR t.largest_device_used_sample_bytes IS DISTINCT FROM k.used
       OR t.peak_process_used_bytes IS DISTINCT FROM k.process)
UNION ALL
SELECT trial_id, stage, s.sample_count, NULL, NULL, s.largest_device_used_sample_bytes, b.used
FROM stage_peaks s LEFT JOIN by_stage b USING (trial_id, stage)
WHERE s.largest_device_used_sample_bytes IS DISTINCT FROM b.used OR s.peak_process_used_bytes IS DISTINCT FROM b.process
