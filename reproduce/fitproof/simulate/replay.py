"""Replay memory events through the allocator model: peaks per stage, and whether and where it runs out of memory.

Events are tuples, in the order in which the program made them:

    ("alloc", key, nbytes)   ("alloc", key, nbytes, pool)   ("alloc", key, nbytes, pool, stream)
    ("free", key)            ("stage", name)                ("empty_cache",)              ("release_pool", pool)
    ("driver", nbytes, what)      ("copy", template, first_key)   ("copy", template, first_key, pool, stream)

A key is any hashable and names one live allocation; it may be used again after its free. Allocations in a pool other
than None happen under graph capture. A stage lasts until the next one begins. "driver": what the driver and libraries
take from the device for themselves; it is never given back. "copy": all events of a Template (template.py).
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from ..errors import UsageError
from .allocator import CachingAllocator, OutOfMemory
from .copies import CopyReplayer
from .placement import DESCENDING, Placement, RecordedPlacement
from .template import Event


@dataclass(frozen=True, kw_only=True, slots=True)
class StageMemory:
    """Bytes of one stage: peaks since it began, and what stood at its end. `stage` is None before the first stage."""

    stage: str | None
    peak_allocated: int
    peak_reserved: int
    peak_requested: int
    peak_segments: int
    peak_device_used: int  # reserved and driver bytes together
    allocated: int
    reserved: int
    requested: int
    num_alloc_retries: int  # so far, as torch counts them
    num_ooms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """The allocation that ended a replay: index of its event, its key (for driver bytes: what for) and bytes, and what
    the driver was asked for."""

    event: int
    stage: str | None
    key: Hashable
    requested_bytes: int
    segment_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Replay:
    """What a replay came to. It stops at the first OOM: `failure` says where, None where all events went through.

    `smallest_refused` is the least total of reserved and driver bytes that the capacity refused, None where it refused
    none: every capacity from `peak_device_used` up to below `smallest_refused` gives this very replay.
    """

    stages: tuple[StageMemory, ...]
    peak_allocated: int
    peak_reserved: int
    peak_requested: int
    peak_device_used: int
    num_alloc_retries: int
    num_ooms: int
    smallest_refused: int | None
    failure: Failure | None

    @property
    def completed(self) -> bool:
        return self.failure is None


def replay(
    events: Iterable[Event],
    *,
    capacity: int | None = None,
    expandable: bool = False,
    placement: Placement | RecordedPlacement = DESCENDING,
) -> Replay:
    """Replay events with `capacity` bytes for segments (None: no bound). Raises UsageError for an unknown event."""
    allocator = CachingAllocator(capacity=capacity, expandable=expandable, placement=placement)
    malloc, free, copy = allocator.malloc, allocator.free, CopyReplayer(allocator).run
    stages: list[StageMemory] = []
    stage, at, failure = None, -1, None
    try:
        for at, event in enumerate(events):
            action = event[0]
            if action == "alloc":
                malloc(*event[1:])
            elif action == "free":
                free(event[1])
            elif action == "copy":
                copy(*event[1:])
            elif action == "stage":
                if at:
                    stages.append(_close(allocator, stage))
                stage = event[1]
                allocator.reset_peaks()
            elif action == "empty_cache":
                allocator.empty_cache()
            elif action == "release_pool":
                allocator.release_pool(event[1])
            elif action == "driver":
                allocator.take_outside(event[1])
            else:
                raise UsageError(
                    f"memory event {at} is unknown",
                    found=repr(action),
                    expected="alloc, free, copy, stage, empty_cache, release_pool or driver",
                )
    except OutOfMemory as oom:
        failure = Failure(
            event=at,
            stage=stage,
            key=oom.key if event[0] == "copy" else event[2] if event[0] == "driver" else event[1],
            requested_bytes=oom.requested_bytes,
            segment_bytes=oom.segment_bytes,
        )
    stages.append(_close(allocator, stage))
    return Replay(
        stages=tuple(stages),
        peak_allocated=max(s.peak_allocated for s in stages),
        peak_reserved=max(s.peak_reserved for s in stages),
        peak_requested=max(s.peak_requested for s in stages),
        peak_device_used=max(s.peak_device_used for s in stages),
        num_alloc_retries=allocator.num_alloc_retries,
        num_ooms=allocator.num_ooms,
        smallest_refused=allocator.smallest_refused,
        failure=failure,
    )


def replay_under(
    events: Sequence[Event],
    placements: Iterable[Placement],
    *,
    capacity: int | None = None,
    expandable: bool = False,
) -> dict[str, Replay]:
    """Replay under several placements, by name: their spread is what an unknown driver leaves open."""
    return {
        placement.name: replay(events, capacity=capacity, expandable=expandable, placement=placement)
        for placement in placements
    }


def _close(allocator: CachingAllocator, stage: str | None) -> StageMemory:
    return StageMemory(
        stage=stage,
        peak_allocated=allocator.peak_allocated,
        peak_reserved=allocator.peak_reserved,
        peak_requested=allocator.peak_requested,
        peak_segments=allocator.peak_segments,
        peak_device_used=allocator.peak_device_used,
        allocated=allocator.allocated,
        reserved=allocator.reserved,
        requested=allocator.requested,
        num_alloc_retries=allocator.num_alloc_retries,
        num_ooms=allocator.num_ooms,
    )
