-- Grain: configuration with an attempt. Inputs: core_attempts, core_trials.
-- Counts, label and peaks are those of the first campaign: the one whose first attempt started first. Label and limit come
-- from the three smallest seeds with an eligible trial, one trial a seed (several panels may hold one cell: the trial
-- that started first). Their limit is the smallest effective capacity of these trials minus 2,048 MiB, and all are held
-- against it. The single-run state is that of the smallest seed, against its own limit; null where that is unknown.
WITH campaigns AS (
    SELECT configuration_id, campaign,
           row_number() OVER (PARTITION BY configuration_id ORDER BY min(started_at), campaign) AS number
    FROM core_attempts GROUP BY configuration_id, campaign
), first_campaigns AS (
    SELECT configuration_id, campaign FROM campaigns WHERE number = 1
), trials AS (
    SELECT * FROM core_trials SEMI JOIN first_campaigns USING (configuration_id, campaign)
), one_per_seed AS (
    SELECT * FROM trials
    QUALIFY row_number() OVER (PARTITION BY configuration_id, seed ORDER BY started_at, panel, slot_id) = 1
), chosen AS (
    SELECT *, min(limit_bytes) OVER (PARTITION BY configuration_id) AS configuration_limit_bytes
    FROM (
        FROM one_per_seed
        QUALIFY row_number() OVER (PARTITION BY configuration_id ORDER BY seed) <= 3)
), labels AS (
    SELECT configuration_id,
           max(configuration_limit_bytes) AS limit_bytes,
           arg_min_null(state, seed) AS single_run_state,
           bool_or(capacity_mib IS NULL OR capacity_mib < 4096) AS is_without_label,
           CASE WHEN count(*) < 3 THEN 'unresolved'
                WHEN bool_or(status = 'memory_failure') THEN 'memory_failure'
                WHEN count(*) FILTER (peak_device_used_bytes IS NULL) > 0 THEN 'unresolved'
                WHEN bool_and(peak_device_used_bytes <= configuration_limit_bytes) THEN 'within_margin'
                ELSE 'above_margin' END AS label
    FROM chosen GROUP BY configuration_id
), counts AS (
    SELECT configuration_id,
           count(*) AS eligible_trials,
           count(DISTINCT seed) AS distinct_seeds,
           count(*) FILTER (status = 'completed') AS completed_trials,
           count(*) FILTER (status = 'memory_failure') AS memory_failures,
           count(*) FILTER (state = 'above_margin') AS above_margin_trials,
           CASE WHEN bool_or(NOT is_within_5_percent) THEN false
                WHEN count(is_within_5_percent) = count(*) THEN true END AS is_within_5_percent,
           max(peak_device_used_bytes) FILTER (status = 'completed') AS max_device_used_bytes,
           max(peak_reserved_bytes) FILTER (status = 'completed') AS max_reserved_bytes,
           max(peak_allocated_bytes) FILTER (status = 'completed') AS max_allocated_bytes,
           max(peak_process_used_bytes) FILTER (status = 'completed') AS max_process_used_bytes,
           min(capacity_mib) AS capacity_mib,
           min(effective_capacity_bytes) AS min_effective_capacity_bytes
    FROM trials GROUP BY configuration_id
), started AS (
    SELECT a.configuration_id, count(*) FILTER (a.campaign = f.campaign) AS attempts,
           count(DISTINCT a.campaign) AS campaigns,
           min(t.capacity_mib) AS started_capacity_mib
    FROM core_attempts AS a
    JOIN first_campaigns AS f USING (configuration_id)
    LEFT JOIN raw_trials AS t USING (attempt_key)
    GROUP BY a.configuration_id
)
SELECT s.*, f.campaign, c.* EXCLUDE (configuration_id),
       l.limit_bytes, l.single_run_state, l.label, l.is_without_label
FROM started AS s
JOIN first_campaigns AS f USING (configuration_id)
LEFT JOIN counts AS c USING (configuration_id)
LEFT JOIN labels AS l USING (configuration_id)
