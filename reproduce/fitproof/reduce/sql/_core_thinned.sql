-- Grain: sample that the thinning keeps. Inputs: core_samples, core_intervals (one batch).
-- Per attempt, interval and 100 ms bucket: the first sample, the earliest maximum of device used, the earliest maximum of
-- process used; and the last sample of every interval. A trace has fewer than 2^32 rows, so that bytes * 2^32 - sample
-- orders by bytes and then by earlier sample without ties, and attempt * 2^32 + sample names a sample.
WITH buckets AS (
    SELECT attempt_key, interval, bucket, min(sample) AS first_sample, max(sample) AS last_sample,
           arg_max(sample, device_used_bytes::HUGEINT * 4294967296 - sample) AS device_peak_sample,
           arg_max(sample, process_used_bytes::HUGEINT * 4294967296 - sample) AS process_peak_sample
    FROM core_samples GROUP BY attempt_key, interval, bucket
), kept AS (
    SELECT attempt_key * 4294967296 + unnest([first_sample, device_peak_sample, process_peak_sample]) AS name
    FROM buckets
    UNION ALL
    SELECT attempt_key * 4294967296 + max(last_sample) FROM buckets GROUP BY attempt_key, interval
), thinned AS (
    SELECT * FROM core_samples WHERE attempt_key * 4294967296 + sample IN (SELECT name FROM kept)
)
SELECT s.attempt_key, s.sample, s.t_ns - i.first_ns AS elapsed_ns, i.stage, i.step, s.interval, s.device_index,
       s.device_used_bytes, s.process_used_bytes
FROM thinned AS s
JOIN core_intervals AS i USING (attempt_key, interval)
