-- Proves: rows of one settings_id differ in nothing but capacity, steps, device count, device and stack, and no two
-- configurations are the same in everything.
WITH settings AS (
    SELECT settings_id, configuration_id, capacity_mib, capacity_source, total_training_steps, gpu_count, device,
           torch_version, transformers_version,
           row(model_id, teacher_id, workload, algorithm, adaptation, lora_rank, lora_alpha, lora_targets, adapter_dtype,
               quantization, optimizer, dtype, gradient_checkpointing, logits_chunk, use_kl, reference, train_batch_size,
               rollout_n, actor_micro_batch, rollout_logprob_micro_batch, ref_logprob_micro_batch, critic_micro_batch,
               teacher_micro_batch, max_prompt_length, max_response_length, padding, max_num_seqs, kv_reservation,
               free_cache_engine, rollout_weights, parameter_offload, optimizer_offload, empty_cache, decode_coverage,
               checkpoint_every, deterministic, attn_implementation, allocator, rollout_engine, capture_micro_batches,
               micro_batch_coverage) AS rest
    FROM configurations
)
SELECT 'one settings_id, several settings' AS what, settings_id AS id FROM settings
GROUP BY settings_id HAVING count(DISTINCT rest) > 1
UNION ALL
SELECT 'several settings_id, one settings', min(settings_id) FROM settings
GROUP BY rest HAVING count(DISTINCT settings_id) > 1
UNION ALL
SELECT 'several configurations, all the same', min(configuration_id) FROM settings
GROUP BY settings_id, capacity_mib, capacity_source, total_training_steps, gpu_count, device, torch_version, transformers_version
HAVING count(*) > 1
