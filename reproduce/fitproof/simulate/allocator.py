"""A model of PyTorch's CUDA caching allocator: what it reserves for a stream of allocations and frees.

It follows `DeviceCachingAllocator` in c10/cuda/CUDACachingAllocator.cpp (torch 2.11 to 2.13), named in each docstring.
Modelled: both size classes, streams, private pools of CUDA graphs, splitting, merging, retry after releasing the
cache, expandable segments. Left out, because they are off unless someone asks for them: garbage_collection_threshold,
max_split_size_mb, roundup_power2_divisions, memory callbacks, no-split pools and pools opted in as overflow; and
blocks used on several streams (`record_stream`), whose reuse depends on time. Active bytes are then allocated bytes.
"""

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable

from .blocks import (
    ADDRESS_BITS,
    ADDRESS_MASK,
    MIN_BLOCK_SIZE,
    SMALL_SIZE,
    BlockPool,
    allocation_size,
    round_size,
)
from .expandable import RANGE_BYTES, ExpandablePool
from .placement import DESCENDING, Placement, RecordedPlacement

# Expandable ranges start here and lie far apart; only the order inside one range matters.
_FIRST_RANGE = 2 * RANGE_BYTES


class OutOfMemory(Exception):
    """torch.OutOfMemoryError: `requested_bytes` did not fit, `segment_bytes` is what the driver was asked for."""

    def __init__(self, requested_bytes: int, segment_bytes: int):
        super().__init__(f"no {segment_bytes} bytes left for a request of {requested_bytes}")
        self.requested_bytes, self.segment_bytes = requested_bytes, segment_bytes
        self.key: Hashable = None  # of the request, where a replay knows it


class CachingAllocator:
    """The allocator of one device. Bytes everywhere; the attributes are torch's statistics, current and peak.

    `capacity` is what the driver can give; None never refuses. `driver_bytes` of it the driver and the libraries hold
    for themselves; where no event tells of them they are 0 and the capacity is the segments' alone. `placement` decides
    the addresses of plain segments, which break ties among free blocks of equal size.
    """

    __slots__ = (
        "_default",
        "_expandable",
        "_freeable",
        "_live",
        "_next_range",
        "_placement",
        "_pools",
        "_segments",
        "_whole_free",
        "allocated",
        "capacity",
        "changes",
        "driver_bytes",
        "num_alloc_retries",
        "num_ooms",
        "peak_allocated",
        "peak_device_used",
        "peak_inactive_split",
        "peak_requested",
        "peak_reserved",
        "peak_segments",
        "requested",
        "reserved",
        "smallest_refused",
    )

    def __init__(
        self,
        *,
        capacity: int | None = None,
        expandable: bool = False,
        placement: Placement | RecordedPlacement = DESCENDING,
    ):
        self.capacity = capacity
        self._expandable = expandable
        self._placement = placement.start()
        self._next_range = _FIRST_RANGE
        self._segments: dict[int, int] = {}  # address -> bytes of every plain segment
        self._whole_free = 0  # bytes of free blocks that are a whole plain segment
        self._live: dict[Hashable, tuple[int, int, int, BlockPool]] = {}
        self._pools: dict[tuple[Hashable, Hashable], tuple[BlockPool, BlockPool]] = {}
        self._freeable: set[Hashable] = set()
        self.allocated = self.requested = self.reserved = 0
        self.driver_bytes = self.peak_device_used = 0
        self.num_alloc_retries = self.num_ooms = 0
        self.changes = 0  # how often segments or pages were taken or given back
        # The least total in use + asked that the capacity refused: any capacity below it would have refused the same.
        self.smallest_refused: int | None = None
        self._default = self.pair(None, 0)
        self.reset_peaks()

    @property
    def inactive_split(self) -> int:
        """Free bytes in segments that are partly in use; 0 with expandable segments, which torch leaves out."""
        return 0 if self._expandable else self.reserved - self.allocated - self._whole_free

    @property
    def segments(self) -> int:
        """Segments from cudaMalloc; expandable ranges are not counted, as in torch's `segment` statistic."""
        return len(self._segments)

    def reset_peaks(self) -> None:
        """torch.cuda.reset_peak_memory_stats."""
        self.peak_device_used = self.reserved + self.driver_bytes
        self.peak_allocated, self.peak_requested = self.allocated, self.requested
        self.peak_reserved, self.peak_segments = self.reserved, len(self._segments)
        self.peak_inactive_split = self.inactive_split

    def malloc(self, key: Hashable, nbytes: int, pool: Hashable = None, stream: Hashable = 0) -> None:
        """Serve a request under a key that is not live; 0 bytes never reach the allocator (`malloc`).

        A pool other than None is a private pool under capture: no cached block may be released then, so a refusal is
        an OOM at once. Raises OutOfMemory.
        """
        if nbytes <= 0:
            return
        size = round_size(nbytes)
        if pool is None and stream == 0:
            blocks = self._default[size > SMALL_SIZE]
        else:
            blocks = self.pair(pool, stream)[size > SMALL_SIZE]
        free = blocks.free
        at = bisect_left(free, size << ADDRESS_BITS)
        if at == len(free):
            address, found = self._grow(blocks, size, nbytes)
        else:
            if self._expandable:
                at = blocks.best_fit(at)
            block = free.pop(at)
            address, found = block & ADDRESS_MASK, block >> ADDRESS_BITS
            del blocks.size_of_free[address], blocks.end_of_free[address + found]
            if self._segments.get(address) == found:
                self._whole_free -= found
        rest = found - size
        if rest >= blocks.smallest_rest:  # `alloc_found_block` with split_remainder
            blocks.add(address + size, rest)
        else:
            size = found
        self._live[key] = (address, size, nbytes, blocks)
        self.allocated = allocated = self.allocated + size
        self.requested = requested = self.requested + nbytes
        if allocated > self.peak_allocated:
            self.peak_allocated = allocated
        if requested > self.peak_requested:
            self.peak_requested = requested
        if not self._expandable:
            inactive = self.reserved - allocated - self._whole_free
            if inactive > self.peak_inactive_split:
                self.peak_inactive_split = inactive

    def free(self, key: Hashable) -> None:
        """Give a live block back and merge it with free neighbours (`free`, `free_block`, `try_merge_blocks`).

        A key that has no live block is ignored: it asked for 0 bytes.
        """
        block = self._live.pop(key, None)
        if block is None:
            return
        address, size, nbytes, blocks = block
        self.allocated -= size
        self.requested -= nbytes
        end = address + size
        segments, free = self._segments, blocks.free
        size_of_free, end_of_free = blocks.size_of_free, blocks.end_of_free
        if address not in segments:  # the first block of a segment has no neighbour before it
            before = end_of_free.pop(address, None)
            if before is not None:
                del free[bisect_left(free, (address - before) << ADDRESS_BITS | before)]
                address = before
        if end not in segments:
            beyond = size_of_free.pop(end, None)
            if beyond is not None:
                del free[bisect_left(free, beyond << ADDRESS_BITS | end)]
                end += beyond
        size = end - address
        insort(free, size << ADDRESS_BITS | address)
        size_of_free[address] = size
        end_of_free[end] = address
        if segments.get(address) == size:
            self._whole_free += size
        elif not self._expandable:
            inactive = self.reserved - self.allocated - self._whole_free
            if inactive > self.peak_inactive_split:
                self.peak_inactive_split = inactive

    def empty_cache(self) -> None:
        """torch.cuda.empty_cache: give back whole free segments, large ones first (`release_cached_blocks`)."""
        default = [pair for (pool, _), pair in self._pools.items() if pool is None]
        for is_large in (True, False):
            for pair in default:
                self._release(pair[is_large])
        for (pool, _), pair in self._pools.items():
            if pool in self._freeable:
                for blocks in pair:
                    self._release(blocks)

    def release_pool(self, pool: Hashable) -> None:
        """The last graph that used a private pool is gone: its free segments may be released (`releasePool`)."""
        self._freeable.add(pool)

    def take_outside(self, nbytes: int) -> None:
        """The driver or a library takes nbytes for itself, or OutOfMemory: nobody empties the cache for them."""
        peak = self.peak_reserved
        if not self._fits(nbytes):
            self.num_ooms += 1
            raise OutOfMemory(nbytes, nbytes)
        self.reserved, self.peak_reserved = self.reserved - nbytes, peak
        self.driver_bytes += nbytes

    def save(self, blocks: BlockPool) -> tuple:
        """What allocations in one pool change, as long as no segment is taken or given back."""
        lists = list(blocks.free), dict(blocks.size_of_free), dict(blocks.end_of_free)
        return lists, self.allocated, self.requested, self._whole_free

    def restore(self, blocks: BlockPool, saved: tuple, keys: Iterable[Hashable]) -> None:
        """Undo what happened in the pool since `save`, under these keys and no others."""
        (free, sizes, ends), self.allocated, self.requested, self._whole_free = saved
        blocks.free[:] = free
        blocks.size_of_free, blocks.end_of_free = sizes, ends
        for key in keys:
            self._live.pop(key, None)

    def address_of(self, key: Hashable) -> int:
        """First address of a live block. Raises KeyError."""
        return self._live[key][0]

    def snapshot(self) -> list[tuple[int, int, bool]]:
        """(address, bytes, whether it is live) of every block, by address; mapped pages only (`snapshot`)."""
        pools = [blocks for pair in self._pools.values() for blocks in pair]
        free = [(address, size, False) for blocks in pools for address, size in blocks.size_of_free.items()]
        return sorted(free + [(address, size, True) for address, size, _, _ in self._live.values()])

    def segment_sizes(self) -> dict[int, int]:
        """{address: bytes} of the plain segments, in the order in which they were taken."""
        return dict(self._segments)

    def pair(self, pool: Hashable, stream: Hashable) -> tuple[BlockPool, BlockPool]:
        """(small, large) free lists of a pool and stream, made at first use (`get_pool`, `create_or_incref_pool`).
        (None, 0) is the default.
        """
        pair = self._pools.get((pool, stream))
        if pair is None:
            is_private = pool is not None
            if self._expandable:
                base, self._next_range = self._next_range, self._next_range + 4 * RANGE_BYTES
                pair = (
                    ExpandablePool(is_private=is_private, is_small=True, base=base),
                    ExpandablePool(is_private=is_private, is_small=False, base=base + 2 * RANGE_BYTES),
                )
            else:
                pair = (
                    BlockPool(is_private=is_private, smallest_rest=MIN_BLOCK_SIZE),
                    BlockPool(is_private=is_private, smallest_rest=SMALL_SIZE + 1),
                )
            self._pools[pool, stream] = pair
        return pair

    def _grow(self, blocks: BlockPool, size: int, nbytes: int) -> tuple[int, int]:
        """Address and bytes of new memory for `size`: take it, or release the cache and retry, or OutOfMemory."""
        found = self._take(blocks, size)
        if found is None and not blocks.is_private:
            self.empty_cache()
            self.num_alloc_retries += 1
            found = self._take(blocks, size)
        if found is None:
            self.num_ooms += 1
            raise OutOfMemory(nbytes, allocation_size(size))
        return found

    def _take(self, blocks: BlockPool, size: int) -> tuple[int, int] | None:
        """A new segment or newly mapped pages (`alloc_block`); None where the driver refuses."""
        if self._expandable:
            return blocks.map(size, self._fits)
        nbytes = allocation_size(size)
        if not self._fits(nbytes):
            return None
        address = self._placement.place(nbytes)
        self._segments[address] = nbytes
        self.peak_segments = max(self.peak_segments, len(self._segments))
        return address, nbytes

    def _fits(self, nbytes: int) -> bool:
        """Reserve nbytes more, if the capacity has them."""
        wanted = self.reserved + self.driver_bytes + nbytes
        if self.capacity is None or wanted <= self.capacity:
            self.reserved += nbytes
            self.changes += 1
            self.peak_reserved = max(self.peak_reserved, self.reserved)
            self.peak_device_used = max(self.peak_device_used, wanted)
            return True
        if self.smallest_refused is None or wanted < self.smallest_refused:
            self.smallest_refused = wanted
        return False

    def _release(self, blocks: BlockPool) -> None:
        """Give whole free segments, or whole free pages, back to the driver (`release_blocks`)."""
        self.changes += 1
        if self._expandable:
            self.reserved -= blocks.unmap()
            return
        for block in list(blocks.free):
            address, size = block & ADDRESS_MASK, block >> ADDRESS_BITS
            if self._segments.get(address) == size:
                blocks.drop(address, size)
                del self._segments[address]
                self._whole_free -= size
                self.reserved -= size
                self._placement.release(address, size)
