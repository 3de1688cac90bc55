"""Sizes and free lists of PyTorch's CUDA caching allocator (native backend, torch 2.11 to 2.13).

All sizes and addresses are bytes. The constants have the names of c10/core/AllocatorConfig.h, where they stand since
torch 2.10; `large_segment_size_mb` is taken at its default of 20.
"""

from bisect import bisect_left, insort

MIB = 2**20
MIN_BLOCK_SIZE = 512  # kMinBlockSize
SMALL_SIZE = MIB  # kSmallSize: the largest request that the small pool serves
SMALL_BUFFER = 2 * MIB  # kSmallBuffer: a segment of the small pool, a page of its expandable range
LARGE_BUFFER = 20 * MIB  # large_segment_size: the segment for requests below MIN_LARGE_ALLOC, a page of the large range
MIN_LARGE_ALLOC = 10 * MIB  # kMinLargeAlloc
ROUND_LARGE = 2 * MIB  # kRoundLarge
# Every segment and page is a multiple of this, so capacities that differ by less cannot be told apart.
SEGMENT_STEP = 2 * MIB

# A free block is one integer, size above address: integers compare faster than tuples, and in the same order as
# BlockComparatorSize (size, then address). User addresses of x86-64 and arm64 Linux have 47 and 48 bits.
ADDRESS_BITS = 48
ADDRESS_MASK = 2**ADDRESS_BITS - 1


def round_size(nbytes: int) -> int:
    """The block size a request of nbytes > 0 needs: `round_size` with roundup_power2_divisions unset."""
    return (nbytes + MIN_BLOCK_SIZE - 1) & -MIN_BLOCK_SIZE


def allocation_size(size: int) -> int:
    """The segment that cudaMalloc is asked for when no free block has `size` bytes (`get_allocation_size`)."""
    if size <= SMALL_SIZE:
        return SMALL_BUFFER
    if size < MIN_LARGE_ALLOC:
        return LARGE_BUFFER
    return -(-size // ROUND_LARGE) * ROUND_LARGE


class BlockPool:
    """The free blocks of one size class, pool and stream (`BlockPool`; torch keeps streams apart by sorting them).

    `free` holds size << ADDRESS_BITS | address, ascending; `size_of_free` and `end_of_free` find a free block by its
    first address and by its end.
    """

    __slots__ = ("end_of_free", "free", "is_private", "size_of_free", "smallest_rest")

    def __init__(self, *, is_private: bool, smallest_rest: int):
        self.is_private = is_private
        # `should_split`: the least that must be left over for a block to be cut in two.
        self.smallest_rest = smallest_rest
        self.free: list[int] = []
        self.size_of_free: dict[int, int] = {}
        self.end_of_free: dict[int, int] = {}

    def add(self, address: int, size: int) -> None:
        insort(self.free, size << ADDRESS_BITS | address)
        self.size_of_free[address] = size
        self.end_of_free[address + size] = address

    def drop(self, address: int, size: int) -> None:
        """Take out a block that is known to be free."""
        free = self.free
        del free[bisect_left(free, size << ADDRESS_BITS | address)]
        del self.size_of_free[address], self.end_of_free[address + size]
