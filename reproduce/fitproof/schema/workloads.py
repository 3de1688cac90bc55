"""Named workloads (sequence lengths and batch shape) and the six compound levels of the literature.

Lengths decide memory: every sequence is padded to max_prompt_length + max_response_length.
"""

WORKLOADS: dict[str, dict[str, int]] = {
    "gsm8k": dict(max_prompt_length=1024, max_response_length=2048, train_batch_size=32, rollout_n=2, max_num_seqs=64),
    "math": dict(max_prompt_length=512, max_response_length=512, train_batch_size=64, rollout_n=2, max_num_seqs=128),
    "code": dict(max_prompt_length=640, max_response_length=1024, train_batch_size=32, rollout_n=2, max_num_seqs=64),
    "code_long_prompt": dict(
        max_prompt_length=1536, max_response_length=1024, train_batch_size=32, rollout_n=2, max_num_seqs=64
    ),
    "short": dict(max_prompt_length=128, max_response_length=64, train_batch_size=4, rollout_n=4, max_num_seqs=16),
    "chat": dict(max_prompt_length=256, max_response_length=256, train_batch_size=16, rollout_n=4, max_num_seqs=64),
}


def _level(micro_batch: int, reservation: str, parameter_offload: bool) -> dict[str, object]:
    return dict(
        actor_micro_batch=micro_batch,
        rollout_logprob_micro_batch=micro_batch,
        ref_logprob_micro_batch=micro_batch,
        kv_reservation=reservation,
        parameter_offload=parameter_offload,
        optimizer_offload=False,
        free_cache_engine=True,
    )


LEVELS: dict[str, dict[str, object]] = {
    "c0": _level(1, "0.3", True),
    "c1": _level(4, "0.45", True),
    "c2": _level(8, "0.6", False),
    "c3": _level(16, "0.7", False),
    "c4": _level(16, "0.8", False),
    "c5": _level(32, "0.85", False),
}
