-- Grain: memory sample of an eligible attempt of the batch. Inputs: batch_memory, batch_events, batch_attempts,
-- core_intervals. Left out: samples of attempts that can be no trial (they were checked, and stay in the archive).
-- Device used is the monitor's reading minus the one before the child; on a CPU the unique set size minus its start.
-- A sampler that began after the first event has no interval 0, and its earliest samples are in a later one.
WITH baselines AS (
    SELECT attempt_key, arg_min(value_int, line) AS bytes
    FROM batch_events WHERE event = 'fact' AND name = 'baseline_process_bytes'
    GROUP BY attempt_key
), eligible AS (
    SELECT a.attempt_key, a.is_cpu, CASE WHEN a.is_cpu THEN b.bytes ELSE a.baseline_used_bytes END AS baseline_bytes
    FROM batch_attempts AS a
    LEFT JOIN baselines AS b USING (attempt_key)
    WHERE a.is_eligible
)
SELECT m.attempt_key, m.sample, m.t_ns, m.device_index,
       CASE WHEN e.is_cpu THEN m.process_used_bytes ELSE m.device_used_bytes END - e.baseline_bytes AS device_used_bytes,
       m.process_used_bytes, i.interval, (m.t_ns - i.begin_ns) // 100000000 AS bucket
FROM batch_memory AS m
JOIN eligible AS e USING (attempt_key)
JOIN core_intervals AS i ON i.attempt_key = m.attempt_key AND m.t_ns >= i.begin_ns AND m.t_ns < i.next_ns
