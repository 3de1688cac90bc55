"""Panel `ppo`: a policy and a full-parameter critic beside each other."""

from collections.abc import Sequence

from ..plan import Panel
from .cells import SEEDS, cell_slots


def ppo(*, seeds: Sequence[int] = SEEDS) -> Panel:
    """Hardware: one NVIDIA GPU with more than 10 GiB; written for one H200.

    SmolLM2-360M with a critic of the same architecture, workload short: LoRA r8 and all parameters x micro-batch 4 and
    16 x two capacities; three seeds.
    """
    cells = [
        dict(
            model_id="HuggingFaceTB/SmolLM2-360M-Instruct",
            workload="short",
            algorithm="ppo",
            adaptation=adaptation,
            actor_micro_batch=micro_batch,
            capacity_mib=capacity,
        )
        for capacity in (7424, 9728)
        for adaptation in ("lora", "full")
        for micro_batch in (4, 16)
    ]
    reason = (
        "Two models under training. Dry runs: LoRA 5,354 and 5,906 MiB (micro-batch 4, 16), all parameters 7,647 and "
        "7,621, 7,471 and 7,455 at least. At 7,424 (limit 5,376) the four should be within, above, and failures; at "
        "9,728 (limit 7,680) all within."
    )
    return Panel(name="ppo", reason=reason, device_kind="cuda", slots=cell_slots(cells, seeds))
