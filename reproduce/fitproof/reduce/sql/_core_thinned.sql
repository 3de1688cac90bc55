-- Grain: sample that the thinning keeps. Input: core_samples (one batch).
-- Per attempt, interval and 100 ms bucket: the first sample, the earliest maximum of device used, the earliest maximum of
-- process used; and the last sample of every interval. Bytes * 2^32 - sample orders by bytes and then by earlier sample
-- without ties: a trace has fewer than 2^32 rows.
WITH buckets AS (
    SELECT attempt_key, interval, bucket, min(sample) AS first_sample,
           arg_max(sample, device_used_bytes::HUGEINT * 4294967296 - sample) AS device_peak_sample,
           arg_max(sample, process_used_bytes::HUGEINT * 4294967296 - sample) AS process_peak_sample
    FROM core_samples GROUP BY attempt_key, interval, bucket
), kept AS (
    SELECT attempt_key, unnest([first_sample, device_peak_sample, process_peak_sample]) AS sample FROM buckets
    UNION ALL
    SELECT attempt_key, max(sample) FROM core_samples GROUP BY attempt_key, interval
)
SELECT attempt_key, sample, elapsed_ns, stage, step, interval, device_index, device_used_bytes, process_used_bytes
FROM core_samples SEMI JOIN kept USING (attempt_key, sample)
