-- Proves: a label is what the trials of the first campaign say: the three smallest seeds, one eligible trial each.
WITH by_seed AS (
    SELECT configuration_id, seed, arg_min(state, (started_at, trial_id)) AS state
    FROM trials JOIN configurations c USING (configuration_id)
    WHERE trials.campaign = c.campaign
    GROUP BY ALL
),
three AS (
    SELECT configuration_id, count(*) AS seeds, count(state) AS known,
           bool_or(state = 'memory_failure') AS failed, bool_or(state = 'above_margin') AS above
    FROM (FROM by_seed QUALIFY row_number() OVER (PARTITION BY configuration_id ORDER BY seed) <= 3)
    GROUP BY configuration_id
)
SELECT configuration_id, c.label, t.seeds, t.failed, t.above
FROM configurations c LEFT JOIN three t USING (configuration_id)
WHERE c.label IS DISTINCT FROM
      CASE WHEN c.device_kind = 'cpu' OR c.capacity_mib < 4096 THEN NULL
           WHEN coalesce(t.seeds, 0) < 3 THEN 'unresolved'
           WHEN t.failed THEN 'memory_failure'
           WHEN t.known < 3 THEN 'unresolved'
           WHEN t.above THEN 'above_margin'
           ELSE 'within_margin' END
