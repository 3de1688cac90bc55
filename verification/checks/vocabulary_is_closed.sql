-- Proves: columns with a closed vocabulary hold no other word.
SELECT DISTINCT 'attempts.status' AS column, status AS value FROM attempts
WHERE status NOT IN ('completed', 'memory_failure', 'ineligible', 'interrupted')
UNION ALL
SELECT DISTINCT 'attempts.failure_class', failure_class FROM attempts
WHERE failure_class NOT IN ('device_memory', 'host_memory', 'timeout', 'device_fault', 'dependency', 'data', 'harness', 'unknown')
UNION ALL
SELECT DISTINCT 'trials.state', state FROM trials
WHERE state NOT IN ('within_margin', 'above_margin', 'memory_failure')
UNION ALL
SELECT DISTINCT 'configurations.label', label FROM configurations
WHERE label NOT IN ('within_margin', 'above_margin', 'memory_failure', 'unresolved')
UNION ALL
SELECT DISTINCT 'panel_slots.state', state FROM panel_slots
WHERE state NOT IN ('completed', 'failed', 'ineligible', 'interrupted', 'not started')
UNION ALL
SELECT DISTINCT 'configurations.capacity_source', capacity_source FROM configurations
WHERE capacity_source NOT IN ('device', 'emulated')
UNION ALL
SELECT DISTINCT 'stage_peaks.coverage', coverage FROM stage_peaks
WHERE coverage NOT IN ('completed', 'terminal_partial')
UNION ALL
SELECT DISTINCT 'predictions.predicted_label', predicted_label FROM predictions
WHERE predicted_label NOT IN ('within_margin', 'above_margin', 'memory_failure')
UNION ALL
SELECT DISTINCT 'stage_peaks.stage', stage FROM stage_peaks
WHERE stage NOT IN ('initializing', 'rollout', 'rollout_logprob', 'reference_logprob', 'teacher_scoring', 'reward',
                    'actor_update', 'critic_update', 'weight_sync', 'checkpoint', 'validation', 'idle')
