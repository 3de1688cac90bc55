"""Replaying copies of a template without paying for each: what leaves a pool as it was leaves it so again.

A large pool in which the template ran once, that ended as it began, with no segment taken or given back, goes through
the same motions whenever it is in that state again: they are skipped, and only their peaks counted. Small allocations
may leave something behind (a row of log-probabilities), so they run; the small pool always cuts a block to the rounded
size, so the bytes in use follow the same course from wherever they start. Nothing is estimated: where the small pool
would have to grow, or the state is another, the whole template runs.
"""

from bisect import bisect_left
from dataclasses import dataclass

from .allocator import CachingAllocator, OutOfMemory
from .blocks import ADDRESS_BITS, BlockPool, round_size
from .template import Template


@dataclass(frozen=True, kw_only=True, slots=True)
class _Seen:
    """A run that left the large pool unchanged: the state it began in, and peaks above the bytes at its start."""

    changes: int
    large: list[int]
    small: list[int] | None
    """Free blocks of the small pool, if that ended as it began, with nothing left live."""
    allocated: int
    requested: int


class CopyReplayer:
    """Runs copies in one allocator."""

    def __init__(self, allocator: CachingAllocator):
        self._allocator = allocator
        self._seen: dict[tuple[Template, tuple], _Seen] = {}

    def run(self, template: Template, first_key: int, *place: object) -> None:
        """Let the template happen once. Raises OutOfMemory with the key that found no room."""
        a = self._allocator
        small, large = a.pair(*place) if place else a.pair(None, 0)
        seen = self._seen.get((template, place))
        if seen is not None and seen.changes == a.changes and seen.large == large.free:
            allocated, requested = a.allocated, a.requested
            if seen.small == small.free or self._small_alone(template, first_key, small, place):
                a.peak_allocated = max(a.peak_allocated, allocated + seen.allocated)
                a.peak_requested = max(a.peak_requested, requested + seen.requested)
                return
        self._whole(template, first_key, small, large, place)

    def _whole(self, template: Template, first_key: int, small: BlockPool, large: BlockPool, place: tuple) -> None:
        a = self._allocator
        changes, large_free, small_free = a.changes, list(large.free), list(small.free)
        allocated, requested = a.allocated, a.requested
        peaks = a.peak_allocated, a.peak_requested
        a.peak_allocated, a.peak_requested = allocated, requested
        malloc, free = a.malloc, a.free
        key = first_key
        try:
            for event in template.events:
                key = first_key + event[1]
                if event[0] == "alloc":
                    malloc(key, event[2], *place)
                else:
                    free(key)
        except OutOfMemory as oom:
            oom.key = key
            raise
        finally:
            own = a.peak_allocated - allocated, a.peak_requested - requested
            a.peak_allocated, a.peak_requested = max(peaks[0], a.peak_allocated), max(peaks[1], a.peak_requested)
        if a.changes == changes and large.free == large_free and not template.leaves_large:
            is_same = not template.left and small.free == small_free
            self._seen[template, place] = _Seen(
                changes=changes,
                large=large_free,
                small=small_free if is_same else None,
                allocated=own[0],
                requested=own[1],
            )

    def _small_alone(self, template: Template, first_key: int, small: BlockPool, place: tuple) -> bool:
        """Run the small allocations alone; False, with nothing changed, where the pool would have to grow for one."""
        a = self._allocator
        before = a.save(small)
        free_blocks, malloc, free = small.free, a.malloc, a.free
        for action, key, *nbytes in template.small_events:
            if action == "free":
                free(first_key + key)
            elif bisect_left(free_blocks, round_size(nbytes[0]) << ADDRESS_BITS) == len(free_blocks):
                a.restore(small, before, range(first_key, first_key + len(template.labels)))
                return False
            else:
                malloc(first_key + key, nbytes[0], *place)
        return True
