"""Expandable segments: one growing range of address space per block pool, of which pages are mapped and unmapped.

torch reserves 9/8 of the device's memory as address space for a range (`ExpandableSegment`) and opens another when it
is used up, which needs an eighth of the device unmapped in the middle; here a range never ends.
"""

from collections.abc import Callable

from .blocks import ADDRESS_BITS, ADDRESS_MASK, LARGE_BUFFER, MIN_BLOCK_SIZE, SMALL_BUFFER, BlockPool

RANGE_BYTES = 2**39


class ExpandablePool(BlockPool):
    """A block pool whose blocks lie in one range that starts at `base`.

    `unmapped` has the pages without memory as {address: bytes}, neighbours always joined (`BlockPool::unmapped`).
    """

    __slots__ = ("base", "page", "unmapped")

    def __init__(self, *, is_private: bool, is_small: bool, base: int):
        super().__init__(is_private=is_private, smallest_rest=MIN_BLOCK_SIZE)
        self.base = base
        self.page = SMALL_BUFFER if is_small else LARGE_BUFFER
        self.unmapped = {base: RANGE_BYTES // self.page * self.page}

    def best_fit(self, at: int) -> int:
        """Index of the free block to use, from the first that is large enough on (`get_free_block`).

        A block before unmapped pages counts as large as it can grow.
        """
        free = self.free
        size = self._expandable_size(free[at])
        while at + 1 < len(free):
            following = self._expandable_size(free[at + 1])
            if following >= size:
                break
            at, size = at + 1, following
        return at

    def map(self, size: int, fits: Callable[[int], bool]) -> tuple[int, int] | None:
        """Map pages at the lowest address where free and unmapped space adds up to `size`; that block, taken out.

        None where `fits` refused bytes; what was mapped until then stays as a free block
        (`try_allocate_expandable_block`, `find_expandable_block`, `map_block`).
        """
        start = self._first_room(size)
        have = self.size_of_free.get(start, 0)
        while have < size:
            hole = start + have
            nbytes = self._pages(min(size - have, self.unmapped[hole]))
            if not fits(nbytes):
                return None
            rest = self.unmapped.pop(hole) - nbytes
            end = hole + nbytes
            if rest:
                self.unmapped[end] = rest
            if have:
                self.drop(start, have)
            beyond = self.size_of_free.get(end, 0)
            if beyond:
                self.drop(end, beyond)
            have = end + beyond - start
            self.add(start, have)
        self.drop(start, have)
        return start, have

    def unmap(self) -> int:
        """Give back every page that lies wholly inside a free block (`unmap_block`); bytes given back."""
        total = 0
        for block in list(self.free):
            address, size = block & ADDRESS_MASK, block >> ADDRESS_BITS
            end = address + size
            first = self.base + self._pages(address - self.base)
            last = self.base + (end - self.base) // self.page * self.page
            if first >= last:
                continue
            self.drop(address, size)
            if address < first:
                self.add(address, first - address)
            if last < end:
                self.add(last, end - last)
            self._join(first, last)
            total += last - first
        return total

    def _expandable_size(self, block: int) -> int:
        size = block >> ADDRESS_BITS
        return size + self.unmapped.get((block & ADDRESS_MASK) + size, 0)

    def _pages(self, nbytes: int) -> int:
        """nbytes rounded up to whole pages."""
        return -(-nbytes // self.page) * self.page

    def _first_room(self, size: int) -> int:
        for hole in sorted(self.unmapped):
            start = at = self.end_of_free.get(hole, hole)
            while at - start < size:
                step = self.size_of_free.get(at) or self.unmapped.get(at)
                if step is None:
                    break
                at += step
            else:
                return start
        raise AssertionError("an expandable range has no end")

    def _join(self, first: int, last: int) -> None:
        size = last - first + self.unmapped.pop(last, 0)
        before = next((start for start, length in self.unmapped.items() if start + length == first), None)
        if before is None:
            self.unmapped[first] = size
        else:
            self.unmapped[before] += size
