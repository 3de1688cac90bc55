-- Grain: attempt (a start in a ledger). Inputs: raw_attempts, raw_slots, raw_results, raw_settings.
-- Nothing is left out. An attempt without a result is interrupted. The trial of a slot is its first attempt, by number,
-- that completed or is a memory failure; a slot is one (panel, campaign, slot_id, configuration).
WITH slots AS (  -- parts of one plan repeat its slots
    SELECT DISTINCT panel, campaign, slot_id, configuration_id, settings_key, seed, device, device_kind FROM raw_slots
), joined AS (
    SELECT a.*, s.settings_key, s.seed, s.device, s.device_kind, coalesce(r.status, 'interrupted') AS status,
           r.failure_class, r.failure_stage, r.evidence, r.exit_code, r.signal, r.completed_steps, r.wall_ns, r.device_ns,
           r.samples AS stated_samples, r.median_interval_ns, r.max_interval_ns, r.ended_at,
           CASE WHEN r.status IS NULL THEN 'the supervisor ended before the attempt did'
                WHEN r.status = 'ineligible' THEN coalesce(r.reason, r.failure_class, 'not stated') END AS reason
    FROM raw_attempts AS a
    JOIN slots AS s USING (panel, campaign, slot_id, configuration_id)
    LEFT JOIN raw_results AS r USING (attempt_key)
), ranked AS (
    SELECT *,
           status IN ('completed', 'memory_failure') AS is_eligible,
           row_number() OVER (
               PARTITION BY panel, campaign, slot_id, configuration_id, status IN ('completed', 'memory_failure')
               ORDER BY attempt_number) AS rank,
           count(*) FILTER (status = 'ineligible') OVER (
               PARTITION BY panel, campaign, slot_id, configuration_id ORDER BY attempt_number
               ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) > 0 AS is_replacement
    FROM joined
)
SELECT * EXCLUDE (rank, is_eligible, started_at, ended_at),
       started_at::TIMESTAMP AS started_at,
       ended_at::TIMESTAMP AS ended_at,
       is_eligible AND rank = 1 AS is_trial,
       left(sha256(concat_ws('/', panel, slot_id, configuration_id, attempt_number, campaign)), 16) AS attempt_id,
       left(sha256(concat_ws('/', panel, slot_id, configuration_id, campaign)), 16) AS slot_key
FROM ranked
