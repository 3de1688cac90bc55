-- Grain: configuration x method x method version, for configurations with an eligible trial. Inputs: core_predictions,
-- raw_predicted_stages, core_configurations, core_trials, core_stage_runs, core_boundaries, raw_events, raw_settings.
-- Measured values are those of the configuration's first campaign. Where a trial failed its peaks are no demand: they and
-- every error are null. 2,048 MiB are 2,147,483,648 bytes.
WITH trials AS (
    SELECT t.* FROM core_trials AS t JOIN core_configurations AS c USING (configuration_id, campaign)
), stages AS (  -- only of configurations all of whose trials completed
    SELECT t.configuration_id, r.stage, max(r.peak_allocated_bytes) AS allocated, max(r.peak_reserved_bytes) AS reserved
    FROM core_stage_runs AS r JOIN trials AS t USING (attempt_key)
    GROUP BY t.configuration_id, r.stage
    HAVING bool_and(r.is_completed AND t.status = 'completed')
), peak_stages AS (  -- of equal peaks the first stage in this order
    SELECT configuration_id, stage AS measured_peak_stage FROM stages
    QUALIFY row_number() OVER (PARTITION BY configuration_id ORDER BY allocated DESC, list_position(
        ['initializing', 'rollout', 'rollout_logprob', 'reference_logprob', 'teacher_scoring', 'reward', 'actor_update',
         'critic_update', 'weight_sync', 'checkpoint', 'validation', 'idle'], stage)) = 1
), stage_errors AS (
    SELECT p.configuration_id, p.method, p.method_version, p.predictions_digest, p.stage,
           p.peak_allocated_bytes / m.allocated - 1 AS allocated_error,
           p.peak_reserved_bytes / m.reserved - 1 AS reserved_error
    FROM raw_predicted_stages AS p JOIN stages AS m USING (configuration_id, stage)
    WHERE p.is_complete AND m.allocated > 0 AND m.reserved > 0
), worst_stages AS (
    SELECT configuration_id, method, method_version, predictions_digest, count(*) AS compared_stages,
           arg_max(allocated_error, abs(allocated_error) ORDER BY stage) AS worst_stage_allocated_error,
           arg_max(reserved_error, abs(reserved_error) ORDER BY stage) AS worst_stage_reserved_error
    FROM stage_errors GROUP BY ALL
), shortfalls AS (  -- at the last failure event of the failed trial with the smallest seed
    SELECT t.configuration_id, t.failure_stage AS measured_failure_stage,
           e.requested_alloc_bytes - e.device_free_bytes - e.reclaimable_bytes AS shortfall_bytes
    FROM trials AS t LEFT JOIN raw_events AS e ON e.attempt_key = t.attempt_key AND e.event = 'failure'
    WHERE t.status = 'memory_failure'
    QUALIFY row_number() OVER (PARTITION BY t.configuration_id ORDER BY t.seed, t.panel, t.slot_id, e.line DESC) = 1
), joined AS (
    SELECT p.*, g.model_id, g.model_family, g.workload, g.algorithm, g.adaptation, c.capacity_mib,
           c.single_run_state AS measured_single_run_state, c.memory_failures, c.eligible_trials,
           c.min_effective_capacity_bytes AS capacity, c.min_effective_capacity_bytes - 2147483648 AS limit_bytes,
           CASE WHEN NOT c.is_without_label THEN c.label END AS measured_label,
           CASE WHEN c.memory_failures = 0 THEN c.max_allocated_bytes END AS measured_peak_allocated_bytes,
           CASE WHEN c.memory_failures = 0 THEN c.max_reserved_bytes END AS measured_peak_reserved_bytes,
           CASE WHEN c.memory_failures = 0 THEN c.max_device_used_bytes END AS measured_peak_device_used_bytes,
           s.measured_peak_stage, f.measured_failure_stage, f.shortfall_bytes, w.worst_stage_allocated_error,
           w.worst_stage_reserved_error, coalesce(w.compared_stages, 0) AS compared_stages,
           b.fails_at_bytes AS measured_fails_at_bytes, b.completes_at_bytes AS measured_completes_at_bytes
    FROM core_predictions AS p
    JOIN raw_settings AS g USING (settings_key)
    JOIN core_configurations AS c ON c.configuration_id = p.configuration_id AND c.eligible_trials > 0
    LEFT JOIN peak_stages AS s ON s.configuration_id = p.configuration_id
    LEFT JOIN shortfalls AS f ON f.configuration_id = p.configuration_id
    LEFT JOIN worst_stages AS w ON w.configuration_id = p.configuration_id AND w.method = p.method
         AND w.method_version = p.method_version AND w.predictions_digest = p.predictions_digest
    LEFT JOIN core_boundaries AS b
         ON b.settings_id = g.settings_id AND b.total_training_steps = g.total_training_steps AND b.gpu_count = g.gpu_count
         AND b.device = p.device AND b.torch_version = p.torch AND b.transformers_version = p.transformers
), newest_dry_runs AS (
    SELECT configuration_id, smallest_capacity_bytes AS dry_run_smallest_bytes
    FROM core_predictions WHERE method = 'dry_run' AND is_latest
)
SELECT j.* EXCLUDE (torch, transformers),
       j.label AS predicted_label,
       j.completes AS predicted_completes,
       j.failure_stage AS predicted_failure_stage,
       j.peak_allocated_bytes AS predicted_peak_allocated_bytes,
       j.peak_reserved_bytes AS predicted_peak_reserved_bytes,
       j.peak_device_used_bytes AS predicted_peak_device_used_bytes,
       j.smallest_capacity_bytes AS predicted_smallest_capacity_bytes,
       j.peak_stage AS predicted_peak_stage,
       CASE WHEN measured_label <> 'unresolved' THEN j.label = measured_label END AS is_label_right,
       j.peak_allocated_bytes / measured_peak_allocated_bytes - 1 AS allocated_error,
       j.peak_reserved_bytes / measured_peak_reserved_bytes - 1 AS reserved_error,
       j.peak_device_used_bytes / measured_peak_device_used_bytes - 1 AS device_used_error,
       j.smallest_capacity_bytes / measured_completes_at_bytes - 1 AS smallest_capacity_error,
       CASE WHEN memory_failures > 0 THEN shortfall_bytes / capacity
            WHEN coalesce(measured_completes_at_bytes, j.smallest_capacity_bytes, d.dry_run_smallest_bytes) IS NOT NULL
            THEN least(abs(measured_peak_device_used_bytes - limit_bytes),
                       abs(capacity - coalesce(measured_completes_at_bytes, j.smallest_capacity_bytes,
                                               d.dry_run_smallest_bytes))) / capacity END AS margin_fraction
FROM joined AS j
LEFT JOIN newest_dry_runs AS d USING (configuration_id)
