"""A model of PyTorch's CUDA caching allocator: what it reserves for a stream of allocations and frees.

It follows `DeviceCachingAllocator` in c10/cuda/CUDACachingAllocator.cpp (torch 2.11 to 2.13), named in each docstring.
Modelled: both size classes, streams, private pools of CUDA graphs, splitting, merging, retry after releasing the
cache, expandable segments. Left out, because they are off unless someone asks for them: garbage_collection_threshold,
max_split_size_mb, roundup_power2_divisions, memory callbacks, no-split pools and pools opted in as overflow; and
blocks used on several streams (`record_stream`), whose reuse depends on time. Active bytes are then allocated bytes.
"""

from bisect import bisect_left, insort
from collections.abc import Hashable

from .blocks import ADDRESS_BITS, ADDRESS_MASK, SMALL_SIZE, BlockPool, allocation_size, round_size
from .expandable import RANGE_BYTES, ExpandableRange
from .placement import ASCENDING, Placement

# Expandable ranges start here and lie far apart; only the order inside one range matters.
_FIRST_RANGE = 2 * RANGE_BYTES


class OutOfMemory(Exception):  # noqa: N818 - the field's name for it
    """torch.OutOfMemoryError: `requested_bytes` did not fit, `segment_bytes` is what the driver was asked for."""

    def __init__(self, requested_bytes: int, segment_bytes: int):
        super().__init__(f"no {segment_bytes} bytes left for a request of {requested_bytes}")
        self.requested_bytes, self.segment_bytes = requested_bytes, segment_bytes


class CachingAllocator:
    """The allocator of one device. Bytes everywhere; the attributes are torch's statistics, current and peak.

    `capacity` is what the driver can give to segments; None never refuses. `placement` decides the addresses of plain
    segments, which break ties among free blocks of equal size.
    """

    __slots__ = (
        "_default",
        "_end_of_free",
        "_expandable",
        "_freeable",
        "_live",
        "_next_range",
        "_placement",
        "_pools",
        "_segments",
        "_size_of_free",
        "_whole_free",
        "allocated",
        "capacity",
        "num_alloc_retries",
        "num_ooms",
        "peak_allocated",
        "peak_inactive_split",
        "peak_requested",
        "peak_reserved",
        "peak_segments",
        "requested",
        "reserved",
        "smallest_refused",
    )

    def __init__(self, *, capacity: int | None = None, expandable: bool = False, placement: Placement = ASCENDING):
        self.capacity = capacity
        self._expandable = expandable
        self._placement = placement.start()
        self._next_range = _FIRST_RANGE
        self._segments: dict[int, int] = {}  # address -> bytes of every plain segment
        self._size_of_free: dict[int, int] = {}  # address -> bytes of every free block
        self._end_of_free: dict[int, int] = {}  # end -> address of every free block
        self._whole_free = 0  # bytes of free blocks that are a whole plain segment
        self._live: dict[Hashable, tuple[int, int, int, BlockPool]] = {}
        self._pools: dict[tuple[Hashable, Hashable], tuple[BlockPool, BlockPool]] = {}
        self._freeable: set[Hashable] = set()
        self.allocated = self.requested = self.reserved = 0
        self.num_alloc_retries = self.num_ooms = 0
        # The least reserved + asked that the capacity refused: any capacity below it would have refused the same.
        self.smallest_refused: int | None = None
        self._default = self._pair(None, 0)
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
        size = (nbytes + 511) & -512
        if pool is None and stream == 0:
            blocks = self._default[size > SMALL_SIZE]
        else:
            blocks = self._pair(pool, stream)[size > SMALL_SIZE]
        free = blocks.free
        at = bisect_left(free, size << ADDRESS_BITS)
        if at == len(free):
            address, found = self._grow(blocks, size, nbytes)
        else:
            if self._expandable:
                at = self._best_expandable(blocks, at)
            block = free.pop(at)
            address, found = block & ADDRESS_MASK, block >> ADDRESS_BITS
            del self._size_of_free[address]
            if self._segments.get(address) == found:
                self._whole_free -= found
        rest = found - size
        if rest >= blocks.smallest_rest:  # `alloc_found_block` with split_remainder
            beyond = address + size
            insort(free, rest << ADDRESS_BITS | beyond)
            self._size_of_free[beyond] = rest
            self._end_of_free[beyond + rest] = beyond
        else:
            size = found
            del self._end_of_free[address + found]
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

        A key that never had bytes is ignored.
        """
        block = self._live.pop(key, None)
        if block is None:
            return
        address, size, nbytes, blocks = block
        self.allocated -= size
        self.requested -= nbytes
        end = address + size
        segments, size_of_free, free = self._segments, self._size_of_free, blocks.free
        if address not in segments:  # the first block of a segment has no neighbour before it
            before = self._end_of_free.pop(address, None)
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
        self._end_of_free[end] = address
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

    def _pair(self, pool: Hashable, stream: Hashable) -> tuple[BlockPool, BlockPool]:
        """(small, large) free lists of a pool and stream, made at first use (`get_pool`, `create_or_incref_pool`)."""
        pair = self._pools.get((pool, stream))
        if pair is None:
            made = []
            for is_small in (True, False):
                expandable_range = None
                if self._expandable:
                    expandable_range = ExpandableRange(self._next_range, is_small=is_small)
                    self._next_range += 2 * RANGE_BYTES
                made.append(BlockPool(is_small=is_small, is_private=pool is not None, expandable_range=expandable_range))
            pair = self._pools[pool, stream] = (made[0], made[1])
        return pair

    def _grow(self, blocks: BlockPool, size: int, nbytes: int) -> tuple[int, int]:
        """Address and bytes of new memory for `size`: take it, or release the cache and retry, or OutOfMemory."""
        take = self._map if self._expandable else self._cuda_malloc
        found = take(blocks, size)
        if found is None and not blocks.is_private:
            self.empty_cache()
            self.num_alloc_retries += 1
            found = take(blocks, size)
        if found is None:
            self.num_ooms += 1
            raise OutOfMemory(nbytes, allocation_size(size))
        return found

    def _fits(self, nbytes: int) -> bool:
        """Whether the driver has nbytes more; keeps the least demand that it refused."""
        wanted = self.reserved + nbytes
        if self.capacity is None or wanted <= self.capacity:
            self.reserved = wanted
            self.peak_reserved = max(self.peak_reserved, wanted)
            return True
        if self.smallest_refused is None or wanted < self.smallest_refused:
            self.smallest_refused = wanted
        return False

    def _cuda_malloc(self, blocks: BlockPool, size: int) -> tuple[int, int] | None:
        """A new plain segment (`alloc_block`)."""
        nbytes = allocation_size(size)
        if not self._fits(nbytes):
            return None
        address = self._placement.place(nbytes)
        self._segments[address] = nbytes
        self.peak_segments = max(self.peak_segments, len(self._segments))
        self._end_of_free[address + nbytes] = address
        return address, nbytes

    def _best_expandable(self, blocks: BlockPool, at: int) -> int:
        """Index of the block to use: one before unmapped pages counts as large as it can grow (`get_free_block`)."""
        free, unmapped = blocks.free, blocks.range.unmapped

        def expandable_size(block: int) -> int:
            size = block >> ADDRESS_BITS
            return size + unmapped.get((block & ADDRESS_MASK) + size, 0)

        while at + 1 < len(free) and expandable_size(free[at + 1]) < expandable_size(free[at]):
            at += 1
        return at

    def _map(self, blocks: BlockPool, size: int) -> tuple[int, int] | None:
        """Map pages at the lowest address where free and unmapped space adds up to `size`, and take that block.

        None where the driver refused; what was mapped until then stays as a free block
        (`try_allocate_expandable_block`, `find_expandable_block`, `map_block`).
        """
        unmapped, size_of_free = blocks.range.unmapped, self._size_of_free
        start = self._first_room(blocks, size)
        while size_of_free.get(start, 0) < size:
            have = size_of_free.get(start, 0)
            hole = start + have
            nbytes = blocks.range.pages_for(min(size - have, unmapped[hole]))
            if not self._fits(nbytes):
                return None
            blocks.range.take(hole, nbytes)
            end = hole + nbytes
            if have:
                self._drop_free(blocks, start, have)
            beyond = size_of_free.pop(end, 0)
            if beyond:
                blocks.discard(end, beyond)
            self._add_free(blocks, start, end + beyond - start)
        found = size_of_free.pop(start)
        blocks.discard(start, found)
        return start, found

    def _first_room(self, blocks: BlockPool, size: int) -> int:
        unmapped = blocks.range.unmapped
        for hole in sorted(unmapped):
            start = at = self._end_of_free.get(hole, hole)
            while at - start < size:
                step = self._size_of_free.get(at) or unmapped.get(at)
                if step is None:
                    break
                at += step
            else:
                return start
        raise AssertionError("an expandable range has no end")

    def _add_free(self, blocks: BlockPool, address: int, size: int) -> None:
        blocks.add(address, size)
        self._size_of_free[address] = size
        self._end_of_free[address + size] = address

    def _drop_free(self, blocks: BlockPool, address: int, size: int) -> None:
        blocks.discard(address, size)
        del self._size_of_free[address], self._end_of_free[address + size]

    def _release(self, blocks: BlockPool) -> None:
        """Give whole free segments, or whole free pages, back to the driver (`release_blocks`, `unmap_block`)."""
        for block in list(blocks.free):
            address, size = block & ADDRESS_MASK, block >> ADDRESS_BITS
            if blocks.range is None:
                if self._segments.get(address) == size:
                    self._drop_free(blocks, address, size)
                    del self._segments[address]
                    self._whole_free -= size
                    self.reserved -= size
                    self._placement.release(address, size)
                continue
            first, last = blocks.range.whole_pages(address, size)
            if first < last:
                self._drop_free(blocks, address, size)
                if address < first:
                    self._add_free(blocks, address, first - address)
                if last < address + size:
                    self._add_free(blocks, last, address + size - last)
                blocks.range.give_back(first, last)
                self.reserved -= last - first
