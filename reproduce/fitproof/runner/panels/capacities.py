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


GRID: tuple[Capacity, ...] = ()
