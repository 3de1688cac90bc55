-- Proves: our own workloads, and they alone, name their trials: of one configuration, a deterministic opd with a
-- checkpoint, on that device, with that peak, and with medians that follow from iteration_costs (to the microsecond).
WITH medians AS (
    SELECT trial_id, median(seconds) FILTER (stage = 'rollout') AS rollout_seconds,
           median(seconds) FILTER (stage = 'teacher_scoring') AS teacher_seconds,
           median(seconds) FILTER (stage = 'actor_update') AS update_seconds, max(step) AS cycles
    FROM iteration_costs WHERE step >= 2 GROUP BY trial_id
)
SELECT w.pair, w.engine, w.device, w.run, w.trial_id, w.resumed_trial_id
FROM opd_workloads w
LEFT JOIN trials t ON t.trial_id = w.trial_id
LEFT JOIN trials r ON r.trial_id = w.resumed_trial_id
LEFT JOIN configurations c ON c.configuration_id = w.configuration_id
LEFT JOIN medians m ON m.trial_id = w.trial_id
WHERE (w.engine = 'fitproof') <> (w.trial_id IS NOT NULL)
   OR (w.trial_id IS NULL) <> (w.resumed_trial_id IS NULL) OR (w.trial_id IS NULL) <> (w.configuration_id IS NULL)
   OR (w.trial_id IS NOT NULL AND (
           (t.configuration_id, r.configuration_id) IS DISTINCT FROM (w.configuration_id, w.configuration_id)
        OR t.trial_id = r.trial_id OR t.seed <> r.seed
        OR (t.device, t.peak_reserved_bytes) IS DISTINCT FROM (w.device, w.peak_reserved_bytes)
        OR NOT (c.algorithm = 'opd' AND c.deterministic AND c.checkpoint_every > 0)
        OR w.positions IS DISTINCT FROM c.train_batch_size * c.rollout_n * c.max_response_length
        OR (w.cycles, c.total_training_steps) IS DISTINCT FROM (m.cycles, m.cycles)
        OR greatest(abs(w.rollout_seconds - m.rollout_seconds), abs(w.teacher_seconds - m.teacher_seconds),
                    abs(w.update_seconds - m.update_seconds)) > 1e-6))
