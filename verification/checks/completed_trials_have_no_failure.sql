-- Proves: a trial either completed every step it was asked for, or it is a memory failure with the class device_memory.
SELECT trial_id, state, failure_class, failure_stage, completed_steps, total_training_steps
FROM trials JOIN configurations USING (configuration_id)
WHERE (failure_class IS NULL AND (completed_steps <> total_training_steps OR failure_stage IS NOT NULL))
   OR (failure_class IS NOT NULL AND (failure_class <> 'device_memory' OR state IS DISTINCT FROM 'memory_failure'))
   OR (state = 'memory_failure' AND failure_class IS NULL)
