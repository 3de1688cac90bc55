"""Panels `quick` and `coverage`: twelve configurations on the whole card, with edges of passes and of decoding."""

from ...schema.settings import resolve
from ..plan import Panel, Slot
from .estimate import estimate_seconds


def quick(*, device_kind: str = "cuda") -> Panel:
    """Hardware: any GPU with about 8 GB; 104 s of trials on one H200, after start-up.

    Qwen3-0.6B and SmolLM2-360M x short and chat x micro-batch 1, 2, 4: LoRA r8, cuda_graph, 2 steps, decoded in full,
    one seed. The micro-batch is that of the update and of both scoring passes, of which the edges are run.
    """
    reason = "A first measurement on any card, whole card, one seed; frozen, so that cards can be compared."
    return Panel(name="quick", reason=reason, device_kind=device_kind, slots=_slots("full", device_kind))


def coverage(*, device_kind: str = "cuda") -> Panel:
    """Hardware: as `quick`, whose configurations it repeats with decode_coverage=edges.

    Peaks must be equal to those of `quick`, byte for byte: only then do other panels decode edges.
    """
    reason = "The configurations of panel quick with edges decoded: peaks must be those of decoding in full."
    return Panel(name="coverage", reason=reason, device_kind=device_kind, slots=_slots("edges", device_kind))


def _slots(decode_coverage: str, device_kind: str) -> tuple[Slot, ...]:
    return tuple(
        _slot(model, workload, micro_batch, decode_coverage, device_kind)
        for model in ("Qwen/Qwen3-0.6B", "HuggingFaceTB/SmolLM2-360M-Instruct")
        for workload in ("short", "chat")
        for micro_batch in (1, 2, 4)
    )


def _slot(model: str, workload: str, micro_batch: int, decode_coverage: str, device_kind: str) -> Slot:
    settings = resolve(
        model_id=model,
        workload=workload,
        adaptation="lora",
        lora_rank=8,
        rollout_engine="cuda_graph",
        total_training_steps=2,
        decode_coverage=decode_coverage,
        micro_batch_coverage="edges",
        actor_micro_batch=micro_batch,
        rollout_logprob_micro_batch=micro_batch,
        ref_logprob_micro_batch=micro_batch,
    )
    return Slot(settings=settings, seed=0, estimate_seconds=estimate_seconds(settings, device_kind=device_kind))
