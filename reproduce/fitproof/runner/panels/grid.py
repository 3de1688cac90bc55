"""Panel `grid`: models x workloads x levels c0 to c5 at emulated capacities, three seeds."""

from collections.abc import Sequence

from ...errors import UsageError
from ...schema.settings import resolve
from ...schema.workloads import LEVELS
from ..plan import Panel, Slot
from .capacities import GRID, Capacity
from .estimate import estimate_seconds


def grid(*, capacities: Sequence[Capacity] = GRID, seeds: Sequence[int] = (0, 1, 2)) -> Panel:
    """Hardware: one NVIDIA GPU whose memory exceeds the largest capacity of the table; written for one H200.

    Every (model, workload) of the table x its levels x seeds, 2 steps (the peak with Adam's state comes at the second),
    edges decoded. Slots go seed by seed, and within a seed by capacity, so that a run cut short holds whole seeds and
    the ballast seldom moves. Raises UsageError for an empty table.
    """
    if not capacities:
        raise UsageError(
            "panel grid",
            found="an empty capacity table",
            expected="a capacity per model and workload",
            hint="fitproof run scout  # then fill runner/panels/capacities.py from its peaks",
        )
    slots = []
    for seed in seeds:
        for cell in sorted(capacities, key=lambda c: (c.capacity_mib, c.model_id, c.workload)):
            for level in cell.levels:
                settings = resolve(
                    model_id=cell.model_id,
                    workload=cell.workload,
                    decode_coverage="edges",
                    capacity_mib=cell.capacity_mib,
                    capacity_source="emulated",
                    total_training_steps=2,
                    **LEVELS[level],
                )
                slots.append(Slot(settings=settings, seed=seed, estimate_seconds=estimate_seconds(settings)))
    reasons = [f"{c.model_id} {c.workload} {c.capacity_mib} MiB: {c.reason}" for c in capacities]
    reason = "Levels c0 to c5 at capacities where the boundary falls inside the grid. " + "; ".join(reasons)
    return Panel(name="grid", reason=reason, device_kind="cuda", slots=tuple(slots))
