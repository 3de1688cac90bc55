"""Panel `scout`: one uncapped trial per model and workload, from which the capacities of `grid` are chosen."""

from collections.abc import Sequence

from ...schema.settings import resolve
from ...schema.workloads import LEVELS
from ..plan import Panel, Slot
from .estimate import estimate_seconds

SCOUT_MODELS = (
    "Qwen/Qwen3-0.6B",
    "Qwen/Qwen2.5-0.5B-Instruct",
    "Qwen/Qwen2.5-1.5B-Instruct",
    "HuggingFaceTB/SmolLM2-360M-Instruct",
    "meta-llama/Llama-3.2-1B-Instruct",
)
SCOUT_WORKLOADS = ("short", "chat")


def scout(
    *,
    models: Sequence[str] = SCOUT_MODELS,
    workloads: Sequence[str] = SCOUT_WORKLOADS,
    level: str = "c3",
    seed: int = 0,
    device_kind: str = "cuda",
) -> Panel:
    """Hardware: one GPU with 80 GB or more, whole card; written for one H200.

    Five models of four families x two workloads at one level in the middle of the grid (c3: micro-batch 16), edges
    decoded. The level's reservation is left out: a share of the whole card would hide what the trial itself needs.
    """
    batches = {name: value for name, value in LEVELS[level].items() if name != "kv_reservation"}
    slots = []
    for model in models:
        for workload in workloads:
            settings = resolve(model_id=model, workload=workload, decode_coverage="edges", **batches)
            estimate = estimate_seconds(settings, device_kind=device_kind)
            slots.append(Slot(settings=settings, seed=seed, estimate_seconds=estimate))
    reason = f"Uncapped peaks per model and workload at level {level}, to choose the capacities of panel grid."
    return Panel(name="scout", reason=reason, device_kind=device_kind, slots=tuple(slots))
