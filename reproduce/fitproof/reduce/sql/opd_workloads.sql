-- Grain: run of the OPD workload. Inputs: raw_workloads, core_attempts, core_trials, core_stage_runs, raw_events,
-- raw_settings. Left out: cycle 1, which pays for what is done once, from the medians.
-- Our own runs: everything but the comparison and what spans processes comes from the attempts. A peer's run says all.
WITH ours AS (
    SELECT w.archive, w.panel, w.slot_id, w.campaign, a.attempt_key, a.slot_key AS trial_id, a.configuration_id, a.settings_key,
           c.attempt_key AS interrupted_key, r.attempt_key AS resumed_key, r.slot_key AS resumed_trial_id
    FROM raw_workloads AS w
    JOIN core_attempts AS a ON (a.archive, a.panel, a.campaign, a.slot_id, a.attempt_number)
        = (w.archive, w.panel, w.campaign, w.slot_id, w.attempt)
    JOIN core_attempts AS c ON (c.archive, c.panel, c.campaign, c.slot_id, c.attempt_number)
        = (w.archive, w.resumed_panel, w.campaign, w.resumed_slot_id, w.interrupted_attempt)
    JOIN core_attempts AS r ON (r.archive, r.panel, r.campaign, r.slot_id, r.attempt_number)
        = (w.archive, w.resumed_panel, w.campaign, w.resumed_slot_id, w.resumed_attempt)
), keys AS (
    SELECT unnest([attempt_key, interrupted_key, resumed_key]) AS attempt_key FROM ours
), events AS (
    SELECT *, last_value(step IGNORE NULLS) OVER (PARTITION BY attempt_key ORDER BY line) AS current_step
    FROM raw_events SEMI JOIN keys USING (attempt_key)
), facts AS (
    SELECT attempt_key,
           max(value_int) FILTER (name = 'process_began_ns') AS began_ns,
           max(value_int) FILTER (name = 'resume_load_ns') AS resume_load_ns,
           max(value_int) FILTER (name = 'teacher_cache_bytes') AS teacher_cache_bytes,
           max(value_int) FILTER (name = 'checkpoint_bytes') AS checkpoint_bytes,
           count(*) FILTER (event = 'downshift') AS downshifts,
           max(t_ns) FILTER (event = 'stage_end' AND stage = 'initializing') AS built_ns,
           max(t_ns) FILTER (event = 'stage_end' AND stage = 'rollout' AND step = 1) AS rolled_out_ns,
           max(t_ns) FILTER (event = 'stage_end' AND stage = 'actor_update' AND step = 1) AS updated_ns
    FROM events GROUP BY attempt_key
), rollouts AS (
    SELECT attempt_key, current_step AS step, value_text AS digest FROM events WHERE name = 'rollout_sha256'
), told AS (  -- what the interrupted run says of each step; an attempt and the one that goes on may both say it
    SELECT o.attempt_key, t.step, t.digest
    FROM ours AS o JOIN rollouts AS t ON t.attempt_key IN (o.interrupted_key, o.resumed_key)
), trajectories AS (
    SELECT attempt_key,
           count(u.digest) > 0 AND bool_and(u.digest IS NOT DISTINCT FROM t.digest) AS is_equal
    FROM (SELECT * FROM rollouts SEMI JOIN ours USING (attempt_key)) AS u
    FULL JOIN told AS t USING (attempt_key, step)
    GROUP BY attempt_key
), medians AS (
    SELECT attempt_key,
           median(duration_ns) FILTER (stage = 'rollout') AS rollout_ns,
           median(duration_ns) FILTER (stage = 'teacher_scoring') AS teacher_ns,
           median(duration_ns) FILTER (stage = 'actor_update') AS update_ns
    FROM core_stage_runs WHERE step >= 2 AND is_completed GROUP BY attempt_key
), own AS (
    SELECT o.archive, o.panel, o.slot_id, o.campaign, o.trial_id, o.resumed_trial_id, o.configuration_id,
           m.rollout_ns, m.teacher_ns, m.update_ns,
           f.built_ns - f.began_ns AS cold_start_ns, f.rolled_out_ns - f.began_ns AS first_rollout_ns,
           f.updated_ns - f.began_ns AS first_update_ns, r.resume_load_ns, f.teacher_cache_bytes, f.checkpoint_bytes,
           f.downshifts, t.peak_allocated_bytes, t.peak_reserved_bytes, coalesce(j.is_equal, false) AS is_equal,
           g.total_training_steps AS cycles, g.train_batch_size * g.rollout_n * g.max_response_length AS positions,
           g.actor_micro_batch, g.rollout_engine, g.quantization
    FROM ours AS o
    JOIN core_trials AS t USING (attempt_key)
    JOIN medians AS m USING (attempt_key)
    JOIN facts AS f USING (attempt_key)
    JOIN facts AS r ON r.attempt_key = o.resumed_key
    JOIN raw_settings AS g ON g.settings_key = o.settings_key
    LEFT JOIN trajectories AS j ON j.attempt_key = o.attempt_key
), joined AS (
    SELECT w.pair, w.engine, w.device, w.run, w.archive, w.created_at::TIMESTAMP AS created_at, w.import_ns,
           w.recovery_pair_ns, w.adapter_bytes, w.run_bytes, w.is_adapter_equal, w.is_optimizer_equal, w.is_state_equal,
           w.is_adapter_loadable, nullif(array_to_string(w.differences, '; '), '') AS differences,
           w.is_trajectory_equal AND coalesce(o.is_equal, true) AS is_trajectory_equal,
           coalesce(w.rollout_ns, o.rollout_ns) AS rollout_ns, coalesce(w.teacher_ns, o.teacher_ns) AS teacher_ns,
           coalesce(w.update_ns, o.update_ns) AS update_ns,
           coalesce(w.cold_start_ns, o.cold_start_ns) AS cold_start_ns,
           coalesce(w.first_rollout_ns, o.first_rollout_ns) AS first_rollout_ns,
           coalesce(w.first_update_ns, o.first_update_ns) AS first_update_ns,
           coalesce(w.resume_load_ns, o.resume_load_ns) AS resume_load_ns,
           coalesce(w.peak_allocated_bytes, o.peak_allocated_bytes) AS peak_allocated_bytes,
           coalesce(w.peak_reserved_bytes, o.peak_reserved_bytes) AS peak_reserved_bytes,
           coalesce(w.downshifts, o.downshifts) AS downshifts,
           coalesce(w.teacher_cache_bytes, o.teacher_cache_bytes) AS teacher_cache_bytes,
           coalesce(w.checkpoint_bytes, o.checkpoint_bytes) AS checkpoint_bytes,
           coalesce(w.positions, o.positions) AS positions,
           o.cycles, o.actor_micro_batch, o.rollout_engine, o.quantization, o.trial_id, o.resumed_trial_id,
           o.configuration_id
    FROM raw_workloads AS w
    LEFT JOIN own AS o USING (archive, panel, campaign, slot_id)
)
SELECT *,
       is_trajectory_equal AND is_adapter_equal AND is_optimizer_equal AND is_state_equal AS is_resume_exact,
       positions::DOUBLE / nullif(rollout_ns::DOUBLE / 1e9, 0) AS rollout_tokens_per_second,
       positions::DOUBLE / nullif(teacher_ns::DOUBLE / 1e9, 0) AS teacher_positions_per_second,
       positions::DOUBLE / nullif(update_ns::DOUBLE / 1e9, 0) AS update_positions_per_second,
       rollout_ns::DOUBLE / 1e9 AS rollout_seconds,
       teacher_ns::DOUBLE / 1e9 AS teacher_seconds,
       update_ns::DOUBLE / 1e9 AS update_seconds,
       import_ns::DOUBLE / 1e9 AS import_seconds,
       cold_start_ns::DOUBLE / 1e9 AS cold_start_seconds,
       first_rollout_ns::DOUBLE / 1e9 AS first_rollout_seconds,
       first_update_ns::DOUBLE / 1e9 AS first_update_seconds,
       resume_load_ns::DOUBLE / 1e9 AS resume_load_seconds,
       recovery_pair_ns::DOUBLE / 1e9 AS recovery_pair_seconds
FROM joined
