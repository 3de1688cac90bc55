"""Recorded allocator histories: what a real device's allocator did, to hold the model against.

A history is a gzip file of JSON lines in order, [action, address, bytes, ...], made from the trace entries of
torch.cuda.memory._snapshot(): segment_alloc or segment_map, alloc, free_completed; free_requested is passed over.

    python -m fitproof.simulate.histories HISTORY.jsonl.gz ...

prints, for each file and placement, how far the model is from what the device did.
"""

import gzip
import json
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from ..errors import EvidenceError
from .allocator import CachingAllocator
from .blocks import MIB, SMALL_SIZE
from .placement import ASCENDING, DESCENDING, H200, Placement, RecordedPlacement
from .replay import Event, replay


@dataclass(frozen=True, kw_only=True, slots=True)
class History:
    """`entries`: (action, address, bytes) in order. Segments are (address, bytes) as the driver gave them."""

    name: str
    expandable: bool
    entries: tuple[tuple[str, int, int], ...]
    segments: tuple[tuple[int, int], ...]

    @property
    def reserved(self) -> int:
        """Bytes reserved at the end; the peak too, for nothing in a history is given back."""
        return sum(size for _, size in self.segments)

    def events(self) -> list[Event]:
        """The history as replay events; a block's address is its key."""
        return [
            ("alloc", address, size) if action == "alloc" else ("free", address)
            for action, address, size in self.entries
            if action in ("alloc", "free_completed")
        ]

    def recorded(self) -> RecordedPlacement:
        return RecordedPlacement(name="recorded", segments=self.segments)


_SEGMENT = {"segment_alloc": False, "segment_map": True}
_PASSED = ("free_requested",)


def read_history(path: Path) -> History:
    """Raises EvidenceError for an action that the model does not replay, such as segment_free."""
    entries = []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            action, address, size, *_ = json.loads(line)
            if action in _PASSED:
                continue
            if action not in _SEGMENT and action not in ("alloc", "free_completed"):
                raise EvidenceError(
                    f"{path.name}, line {number}",
                    found=repr(action),
                    expected="segment_alloc, segment_map, alloc, free_requested or free_completed",
                )
            entries.append((action, address, size))
    return History(
        name=path.name.removesuffix(".gz").removesuffix(".jsonl"),
        expandable=any(_SEGMENT.get(action, False) for action, _, _ in entries),
        entries=tuple(entries),
        segments=tuple((address, size) for action, address, size in entries if action in _SEGMENT),
    )


def first_difference(history: History) -> str | None:
    """Replay with the recorded segment addresses; where a block's address or the reserved bytes first differ, or None.

    An expandable range has one unknown, its first address, which its first block gives.
    """
    placement = ASCENDING if history.expandable else history.recorded()
    allocator = CachingAllocator(expandable=history.expandable, placement=placement)
    reserved = 0
    shift: dict[bool, int] = {}
    for at, (action, address, size) in enumerate(history.entries):
        if action in _SEGMENT:
            reserved += size
        elif action == "free_completed":
            allocator.free(address)
        else:
            allocator.malloc(address, size)
            given = allocator.address_of(address)
            if history.expandable:
                given += shift.setdefault(size <= SMALL_SIZE, address - given)
            if given != address:
                return f"entry {at}: block of {size} bytes at {given:#x}, recorded at {address:#x}"
            if allocator.reserved != reserved:
                return f"entry {at}: {allocator.reserved} bytes reserved, recorded {reserved}"
    return None


def placed_alike(history: History, placement: Placement) -> tuple[int, int]:
    """(segments at the recorded address, segments as far from the one before as recorded) under a placement.

    Addresses count from the first segment. Where the process or driver took address space in between, all later
    addresses are off by it, which the second figure does not mind.
    """
    space = placement.start()
    modelled = [space.place(size) for _, size in history.segments]
    recorded = [address for address, _ in history.segments]
    same = sum(a - modelled[0] == b - recorded[0] for a, b in zip(modelled, recorded, strict=True))
    steps = zip(pairwise(modelled), pairwise(recorded), strict=True)
    return same, 1 + sum(b - a == d - c for (a, b), (c, d) in steps)


def main(paths: list[str]) -> int:
    """Print the comparison of each history; 1 if the model left one of them."""
    different = False
    for path in paths:
        history = read_history(Path(path))
        difference = first_difference(history)
        different = different or difference is not None
        print(f"{history.name}: {len(history.segments)} segments, {history.reserved / MIB:.0f} MiB reserved")
        print(f"  block by block, recorded segment addresses: {difference or 'identical'}")
        if history.expandable:
            continue
        for placement in (ASCENDING, DESCENDING, H200):
            same, steps = placed_alike(history, placement)
            error = replay(history.events(), placement=placement).peak_reserved - history.reserved
            print(
                f"  {placement.name:10s} reserved {error / MIB:+6.0f} MiB ({error / history.reserved:+.2%}),"
                f" {same} segments at their address, {steps} as far from the one before"
            )
    return int(different)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
