"""What a prediction says. Importing this needs no torch."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class StagePrediction:
    """Peaks of a stage over all steps, under the capacity; `is_complete` False where memory ran out in it."""

    stage: str
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    peak_device_used_bytes: int
    is_complete: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Holder:
    """Live allocations at the peak of allocated bytes: made by one operation in one stage."""

    operation: str
    stage: str
    nbytes: int
    count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """What a trial of `settings` would show. Where it runs out of memory, peaks are what it held until then."""

    capacity_bytes: int
    completes: bool
    label: str | None
    """within_margin, above_margin or memory_failure; None below 4,096 MiB of capacity."""
    failure: str | None
    failure_stage: str | None
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    peak_device_used_bytes: int
    peak_stage: str | None
    """The stage with the largest peak of allocated bytes; of equal ones the first in the order of records.STAGES. None
    where memory runs out before the first stage."""
    smallest_capacity_bytes: int | None
    """Least the card must offer, for the KV pool as it was sized; None where the program gave up by itself."""
    smallest_without_retries_bytes: int | None
    alloc_retries: int
    stages: tuple[StagePrediction, ...]
    bound_by: tuple[Holder, ...]
    interval: dict[str, tuple[int, int]]
    """Lowest and highest under other placements of segments and the spread of driver bytes."""
    facts: dict[str, int | str]
    attention: dict[str, int]
    profile: str
    seconds: float
