-- Grain: interval of an eligible attempt with at least one sample. Input: core_samples (one batch), before thinning.
SELECT attempt_key, interval,
       max(device_used_bytes) AS device_used_bytes,
       max(process_used_bytes) AS process_used_bytes,
       count(*) AS samples,
       max(t_ns) AS last_ns
FROM core_samples GROUP BY attempt_key, interval
