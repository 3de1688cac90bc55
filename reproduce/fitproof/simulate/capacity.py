"""The least capacity at which a stream of memory events completes, by replaying it.

A capacity here is what the driver can give, in bytes: to the allocator's segments, and to itself where the events tell
of it. Segments are multiples of 2 MiB (SEGMENT_STEP), so results are exact to that step.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from .blocks import SEGMENT_STEP
from .placement import DESCENDING, Placement
from .replay import Replay, replay
from .template import Event


@dataclass(frozen=True, kw_only=True, slots=True)
class SmallestCapacity:
    """`capacity` completes and `capacity - SEGMENT_STEP` does not; `without_retries` also never empties the cache."""

    capacity: int
    without_retries: int
    at_capacity: Replay
    unbounded: Replay
    replays: int


def smallest_capacity(
    events: Sequence[Event], *, expandable: bool = False, placement: Placement = DESCENDING
) -> SmallestCapacity:
    """Bisect for the boundary between running out of memory and completing.

    Completing is not monotone in the capacity: with more room the cache is emptied later, at a point where less of it
    can be given back, so a larger capacity may fail where a smaller one went through. What is returned completes and
    fails one step below; smaller capacities that happen to complete may exist (docs/allocator.md counts them).

    Without retries nothing has to be searched: up to the first refusal a replay is the unbounded one, so the answer is
    the unbounded peak of what is in use.

    A replay settles more than the capacity it ran at: all capacities from its peak up to its smallest refusal go the
    same way (Replay), which is why this takes fewer replays than a plain bisection.
    """
    unbounded = replay(events, expandable=expandable, placement=placement)
    best, count = unbounded, 1
    high = unbounded.peak_device_used  # completes
    # Fails: reserved is never below requested. Below 0 nothing is asked, so an empty stream ends at once.
    low = -(-unbounded.peak_requested // SEGMENT_STEP) * SEGMENT_STEP - SEGMENT_STEP
    while high - low > SEGMENT_STEP:
        # Driver bytes are no multiple of the step, so neither are the bounds: count steps from the lower one.
        middle = low + max(1, (high - low) // (2 * SEGMENT_STEP)) * SEGMENT_STEP
        tried = replay(events, capacity=middle, expandable=expandable, placement=placement)
        count += 1
        if tried.completed:
            best, high = tried, min(middle, tried.peak_device_used)
        else:
            low = max(middle, tried.smallest_refused - SEGMENT_STEP)
    return SmallestCapacity(
        capacity=high,
        without_retries=unbounded.peak_device_used,
        at_capacity=best,
        unbounded=unbounded,
        replays=count,
    )
