-- Proves: a setting that does not apply is null, and one that applies is not.
SELECT configuration_id, algorithm, adaptation, reference, rollout_engine
FROM configurations
WHERE (adaptation = 'lora') <> (lora_rank IS NOT NULL)
   OR (adaptation = 'lora') <> (lora_alpha IS NOT NULL)
   OR (adaptation = 'lora') <> (lora_targets IS NOT NULL)
   OR (adaptation = 'lora') <> (adapter_dtype IS NOT NULL)
   OR (algorithm = 'opd') <> (teacher_id IS NOT NULL)
   OR (algorithm = 'opd') <> (teacher_micro_batch IS NOT NULL)
   OR (algorithm = 'opd') <> (rollout_logprob_micro_batch IS NULL)
   OR (algorithm = 'ppo') <> (critic_micro_batch IS NOT NULL)
   OR (reference = 'none') <> (ref_logprob_micro_batch IS NULL)
   OR use_kl <> (reference <> 'none')
   OR (rollout_engine = 'hf_generate' AND (kv_reservation IS NOT NULL OR free_cache_engine IS NOT NULL))
   OR TRY_CAST(kv_reservation AS DOUBLE) NOT BETWEEN 0 AND 1
   OR (kv_reservation IS NOT NULL AND TRY_CAST(kv_reservation AS DOUBLE) IS NULL)
