"""Slots of panels that list their cells: every cell with every seed, edges of decoding and of passes."""

from collections.abc import Iterable, Sequence

from ...schema.settings import resolve
from ..plan import Slot
from .estimate import estimate_seconds

SEEDS = (0, 1, 2)


def cell_slots(cells: Iterable[dict[str, object]], seeds: Sequence[int]) -> tuple[Slot, ...]:
    """`cells` are settings with an emulated `capacity_mib`. Two steps: the peak with Adam's state comes at the second.

    Slots go seed by seed, and within a seed by capacity, so that a run cut short holds whole seeds and the ballast
    seldom moves.
    """
    settings = [
        resolve(
            capacity_source="emulated", total_training_steps=2, decode_coverage="edges", micro_batch_coverage="edges",
            **cell,
        )
        for cell in cells
    ]  # fmt: skip
    settings.sort(key=lambda s: s.capacity_mib)
    return tuple(Slot(settings=s, seed=seed, estimate_seconds=estimate_seconds(s)) for seed in seeds for s in settings)
