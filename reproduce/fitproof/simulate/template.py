"""Events that a trial makes again and again, kept once: a copy is one event that stands for all of them.

("copy", template, first_key, *place)     place: () for the default pool and stream, or (pool, stream)
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .blocks import SMALL_SIZE

Event = tuple


@dataclass(frozen=True, kw_only=True, eq=False)
class Template:
    """Allocations and frees of one pool and stream. Keys count from 0 in the order of the allocations; a copy adds its
    `first_key`. Nothing older is freed. `labels`: what made each allocation.
    """

    events: tuple[Event, ...]
    labels: tuple[str, ...]
    sizes: tuple[int, ...] = field(init=False)
    """Requested bytes by key."""
    left: tuple[int, ...] = field(init=False)
    """Keys that stay live."""
    small_events: tuple[Event, ...] = field(init=False)
    """Those of the small size class."""
    leaves_large: bool = field(init=False)
    peak_bytes: int = field(init=False)
    """Most requested bytes at once, above those before."""
    peak_at: int = field(init=False)
    """Index of the event that reaches it."""

    def __post_init__(self) -> None:
        live: dict[int, int] = {}
        sizes: list[int] = []
        total = peak = at = 0
        for index, event in enumerate(self.events):
            if event[0] == "alloc":
                live[event[1]] = event[2]
                sizes.append(event[2])
                total += event[2]
                if total > peak:
                    peak, at = total, index
            else:
                total -= live.pop(event[1])
        small = tuple(e for e in self.events if sizes[e[1]] <= SMALL_SIZE)
        values = {
            "sizes": tuple(sizes),
            "left": tuple(live),
            "small_events": small,
            "leaves_large": any(nbytes > SMALL_SIZE for nbytes in live.values()),
            "peak_bytes": peak,
            "peak_at": at,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def expanded(self, first_key: int, *place: object) -> Iterator[Event]:
        """The events that a copy stands for."""
        for action, key, *nbytes in self.events:
            yield (action, first_key + key, *nbytes, *place) if nbytes else (action, first_key + key)


def expanded(events: Iterable[Event]) -> Iterator[Event]:
    """Events with every copy written out."""
    for event in events:
        if event[0] == "copy":
            yield from event[1].expanded(*event[2:])
        else:
            yield event
