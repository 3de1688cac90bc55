"""Panel `cpu_tiny`: the whole path on any machine, in well under a minute a slot."""

from ...schema.settings import resolve
from ..plan import Panel, Slot
from .estimate import estimate_seconds


def cpu_tiny() -> Panel:
    """Hardware: two CPU cores. Eight slots: two tiny models of different make x both engines, with and without
    checkpointing, LoRA and all parameters, the vocabulary loss in chunks, two seeds of one configuration.
    """
    qwen, llama = "fitproof/tiny-qwen3", "fitproof/tiny-llama"
    given = [
        (dict(model_id=qwen), 0),
        (dict(model_id=qwen), 1),
        (dict(model_id=qwen, actor_micro_batch=2), 0),
        (dict(model_id=qwen, adaptation="full", gradient_checkpointing=False), 0),
        (dict(model_id=qwen, rollout_engine="hf_generate", logits_chunk=16), 0),
        (dict(model_id=llama), 0),
        (dict(model_id=llama, use_kl=False, empty_cache=True), 0),
        (dict(model_id=llama, rollout_engine="hf_generate", gradient_checkpointing=False), 0),
    ]
    slots = []
    for overrides, seed in given:
        settings = resolve(
            workload="custom",
            train_batch_size=2,
            rollout_n=2,
            max_num_seqs=4,
            max_prompt_length=32,
            max_response_length=16,
            dtype="float32",
            total_training_steps=2,
            **overrides,
        )
        slots.append(Slot(settings=settings, seed=seed, estimate_seconds=estimate_seconds(settings, device_kind="cpu")))
    reason = "The whole path, measured on a CPU: memory is the process's unique set size, not a device's."
    return Panel(name="cpu_tiny", reason=reason, device_kind="cpu", slots=tuple(slots))
