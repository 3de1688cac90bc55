"""Emulated capacities of panel `grid`: one per model and workload, chosen from panel `scout` so that the boundary
between fitting and failing falls inside the levels c0 to c5, and frozen before the first trial.
"""

from dataclasses import dataclass

from ...schema.workloads import LEVELS


@dataclass(frozen=True, kw_only=True, slots=True)
class Capacity:
    """`reason`: the measured peak it was chosen from, and where the boundary is expected. `levels`: which of
    c0 to c5 are run; the low ones of long workloads are the dearest and the least in doubt."""

    model_id: str
    workload: str
    capacity_mib: int
    reason: str
    levels: tuple[str, ...] = tuple(LEVELS)


# Reserved MiB are panel scout's (level c3, micro-batch 16, whole H200). A trial needs about 0.6 to 0.8 GiB on top for
# its context and kernels, and a rollout 0.3 GiB (short) to 0.7 GiB (chat) besides its pool; a level of reservation r
# leaves the card (1 - r) of the capacity for both.
_HIGH = ("c3", "c4", "c5")

GRID: tuple[Capacity, ...] = (
    Capacity(
        model_id="HuggingFaceTB/SmolLM2-360M-Instruct",
        workload="short",
        capacity_mib=4352,
        reason="scout reserved 1750; c4 and c5 should fail beside their pools",
    ),
    Capacity(
        model_id="Qwen/Qwen2.5-0.5B-Instruct",
        workload="short",
        capacity_mib=4608,
        reason="scout reserved 3550; c5 should fail, c4 is at the edge",
    ),
    Capacity(
        model_id="Qwen/Qwen3-0.6B",
        workload="short",
        capacity_mib=4864,
        reason="scout reserved 3698; c5 should fail, c4 is at the edge",
    ),
    Capacity(
        model_id="meta-llama/Llama-3.2-1B-Instruct",
        workload="short",
        capacity_mib=6144,
        reason="scout reserved 4842, weights 2382; the weights alone exceed c0's reservation, c5 is at the edge",
    ),
    Capacity(
        model_id="Qwen/Qwen2.5-1.5B-Instruct",
        workload="short",
        capacity_mib=8192,
        reason="scout reserved 5976, weights 3158; the weights alone exceed c0's reservation, c5 is near the top",
    ),
    Capacity(
        model_id="HuggingFaceTB/SmolLM2-360M-Instruct",
        workload="chat",
        capacity_mib=5120,
        reason="scout reserved 4080; c4 is at the edge, micro-batch 32 of c5 should fail",
        levels=_HIGH,
    ),
    Capacity(
        model_id="Qwen/Qwen2.5-0.5B-Instruct",
        workload="chat",
        capacity_mib=11264,
        reason="scout reserved 10296; micro-batch 32 of c5 should fail",
        levels=_HIGH,
    ),
    Capacity(
        model_id="Qwen/Qwen3-0.6B",
        workload="chat",
        capacity_mib=11264,
        reason="scout reserved 10250; micro-batch 32 of c5 should fail",
        levels=_HIGH,
    ),
    Capacity(
        model_id="meta-llama/Llama-3.2-1B-Instruct",
        workload="chat",
        capacity_mib=12288,
        reason="scout reserved 10968; micro-batch 32 of c5 should fail",
        levels=_HIGH,
    ),
)
