-- Proves: label, limit and single-run state are what the trials of the first campaign say: the three smallest seeds, one
-- eligible trial each (the one that started first), all against the smallest of their limits; the single-run state is
-- that of the smallest seed.
WITH one_per_seed AS (
    SELECT t.*
    FROM trials t JOIN configurations c ON t.configuration_id = c.configuration_id AND t.campaign = c.campaign
    QUALIFY row_number() OVER (PARTITION BY t.configuration_id, t.seed ORDER BY t.started_at, t.panel, t.slot_id) = 1
),
three AS (
    SELECT configuration_id, count(*) AS seeds, count(peak_device_used_bytes) AS known,
           bool_or(failure_class IS NOT NULL) AS failed, max(peak_device_used_bytes) AS peak,
           min(limit_bytes) AS limit_bytes, arg_min_null(state, seed) AS first_state
    FROM (FROM one_per_seed QUALIFY row_number() OVER (PARTITION BY configuration_id ORDER BY seed) <= 3)
    GROUP BY configuration_id
)
SELECT configuration_id, c.label, t.seeds, t.failed, t.peak, t.limit_bytes, c.limit_mib, c.single_run_state
FROM configurations c LEFT JOIN three t USING (configuration_id)
WHERE c.limit_mib IS DISTINCT FROM t.limit_bytes::DOUBLE / 1048576
   OR c.single_run_state IS DISTINCT FROM t.first_state
   OR c.label IS DISTINCT FROM
      CASE WHEN c.device_kind = 'cpu' OR c.capacity_mib < 4096 THEN NULL
           WHEN coalesce(t.seeds, 0) < 3 THEN 'unresolved'
           WHEN t.failed THEN 'memory_failure'
           WHEN t.known < 3 THEN 'unresolved'
           WHEN t.peak > t.limit_bytes THEN 'above_margin'
           ELSE 'within_margin' END
