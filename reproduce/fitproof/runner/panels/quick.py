"""Panel `quick`: twelve trials on the whole card, the first thing to run on any GPU."""

from ...schema.settings import resolve
from ..plan import Panel, Slot
from .estimate import estimate_seconds


def quick(*, device_kind: str = "cuda") -> Panel:
    """Hardware: any GPU with about 8 GB; at most a minute after start-up on one H200.

    Qwen3-0.6B and SmolLM2-360M x short and chat x micro-batch 1, 2, 4: LoRA r8, cuda_graph, 2 steps, decoded in full,
    one seed. The micro-batch is that of the update and of both scoring passes.
    """
    slots = [
        _slot(model, workload, micro_batch, device_kind)
        for model in ("Qwen/Qwen3-0.6B", "HuggingFaceTB/SmolLM2-360M-Instruct")
        for workload in ("short", "chat")
        for micro_batch in (1, 2, 4)
    ]
    reason = "A first measurement on any card, whole card, one seed; frozen, so that cards can be compared."
    return Panel(name="quick", reason=reason, device_kind=device_kind, slots=tuple(slots))


def _slot(model: str, workload: str, micro_batch: int, device_kind: str) -> Slot:
    settings = resolve(
        model_id=model,
        workload=workload,
        adaptation="lora",
        lora_rank=8,
        rollout_engine="cuda_graph",
        total_training_steps=2,
        decode_coverage="full",
        actor_micro_batch=micro_batch,
        rollout_logprob_micro_batch=micro_batch,
        ref_logprob_micro_batch=micro_batch,
    )
    return Slot(settings=settings, seed=0, estimate_seconds=estimate_seconds(settings, device_kind=device_kind))
