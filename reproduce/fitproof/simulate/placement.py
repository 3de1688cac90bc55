"""Where cudaMalloc puts a segment: among free blocks of equal size the caching allocator takes the lowest address.

A Placement is data; `start()` makes the address space of one replay. docs/allocator.md has what was measured.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import CheckFailed
from .blocks import MIB

# The driver takes address space from the operating system in multiples of this.
CHUNK_BYTES = 32 * MIB
_TOP = 2**46


@dataclass(frozen=True, kw_only=True, slots=True)
class DriverEvent:
    """Memory that the driver takes or gives back for itself, once `after_segments` segments were placed.

    With an `offset` (bytes from the top of the open space) that range becomes a hole, without one nbytes are taken.
    """

    after_segments: int
    nbytes: int
    offset: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Placement:
    """How a driver places segments. Offsets are bytes from the edge of the open address space, negative below it.

    `direction`: new chunks go "down" from offset 0 or "up" from it. `chunk`: their granularity in bytes.
    `holes`: (offset, bytes) of free space in chunks that the driver has at the start.
    `gaps`: (offset, bytes) of address space that takes new chunks before the open space does, the highest first.
    """

    name: str
    direction: str
    chunk: int = CHUNK_BYTES
    holes: tuple[tuple[int, int], ...] = ()
    gaps: tuple[tuple[int, int], ...] = ()
    driver_events: tuple[DriverEvent, ...] = ()

    @classmethod
    def from_json(cls, data: dict) -> "Placement":
        """From the JSON form of `dataclasses.asdict`: lists where this has tuples."""
        events = tuple(DriverEvent(**event) for event in data.get("driver_events", ()))
        pairs = {key: tuple(map(tuple, data.get(key, ()))) for key in ("holes", "gaps")}
        return cls(**{**data, **pairs, "driver_events": events})

    def start(self) -> "AddressSpace":
        return AddressSpace(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedPlacement:
    """The addresses of a recorded history, (address, bytes) of its segments in order."""

    name: str
    segments: Sequence[tuple[int, int]]

    def start(self) -> "RecordedAddresses":
        return RecordedAddresses(self.segments)


# One segment after the other at rising addresses: what a replay without knowledge of the driver would assume.
ASCENDING = Placement(name="ascending", direction="up", chunk=2 * MIB)
# Each segment below the one before, in chunks of 32 MiB; the rest of a chunk serves later segments. The default.
DESCENDING = Placement(name="descending", direction="down")
# One H200, CUDA 13.0, 2026-12-01: what the addresses of six histories show (docs/allocator.md). After the third segment
# (the sixth in some runs) the driver takes 506 MiB and gives back 414 MiB that it held until then.
H200 = Placement(
    name="h200",
    direction="down",
    holes=((414 * MIB, 2 * MIB), (488 * MIB, 24 * MIB)),
    gaps=((9216 * MIB, 32 * MIB),),
    driver_events=(
        DriverEvent(after_segments=1, nbytes=2 * MIB),
        DriverEvent(after_segments=3, nbytes=506 * MIB),
        DriverEvent(after_segments=3, nbytes=414 * MIB, offset=0),
    ),
)


class AddressSpace:
    """The chunks of one placement during a replay: `place` and `release` segments. Addresses and sizes in bytes."""

    def __init__(self, placement: Placement):
        self._chunk, self._goes_down = placement.chunk, placement.direction == "down"
        self._edge = _TOP
        self._holes = sorted((_TOP + offset, size) for offset, size in placement.holes)
        self._gaps = sorted(((_TOP + offset, size) for offset, size in placement.gaps), reverse=True)
        self._own = sorted(placement.driver_events, key=lambda event: event.after_segments)
        self._segments = 0

    def place(self, nbytes: int) -> int:
        """Address of a new segment: the lowest hole that has room, else a new chunk."""
        while self._own and self._own[0].after_segments <= self._segments:
            event = self._own.pop(0)
            if event.offset is None:
                self._take(event.nbytes)
            else:
                self.release(_TOP + event.offset, event.nbytes)
        self._segments += 1
        return self._take(nbytes)

    def release(self, address: int, nbytes: int) -> None:
        """A freed segment becomes a hole and joins its neighbours."""
        at = bisect_left(self._holes, (address, 0))
        if at < len(self._holes) and self._holes[at][0] == address + nbytes:
            nbytes += self._holes.pop(at)[1]
        if at and sum(self._holes[at - 1]) == address:
            address, before = self._holes.pop(at - 1)
            nbytes += before
        insort(self._holes, (address, nbytes))

    def _take(self, nbytes: int) -> int:
        for at, (address, size) in enumerate(self._holes):  # noqa: B007 - address is used after the loop
            if size >= nbytes:
                del self._holes[at]
                break
        else:
            address, size = self._new_chunk(-(-nbytes // self._chunk) * self._chunk)
        if size > nbytes:
            insort(self._holes, (address + nbytes, size - nbytes))
        return address

    def _new_chunk(self, size: int) -> tuple[int, int]:
        """A chunk at the top of the first gap that has room, else at the edge of the open space."""
        for at, (address, room) in enumerate(self._gaps):
            if room >= size:
                self._gaps[at] = (address, room - size)
                return address + room - size, size
        if self._goes_down:
            self._edge -= size
            return self._edge, size
        self._edge += size
        return self._edge - size, size


class RecordedAddresses:
    """Gives the recorded addresses in order, as long as the replay asks for the recorded sizes."""

    def __init__(self, segments: Sequence[tuple[int, int]]):
        self._segments, self._next = segments, 0

    def place(self, nbytes: int) -> int:
        """Raises CheckFailed where the replay leaves the recording."""
        at = self._next
        recorded = self._segments[at] if at < len(self._segments) else None
        if recorded is None or recorded[1] != nbytes:
            raise CheckFailed(
                f"segment {at} of the replay is not the recorded one",
                found=f"{nbytes} bytes",
                expected="no more segments" if recorded is None else f"{recorded[1]} bytes",
                hint="replay under a Placement, or with the settings of the recorded run",
            )
        self._next += 1
        return recorded[0]

    def release(self, address: int, nbytes: int) -> None:
        """Nothing: where the next segment goes was recorded too."""
