"""One expandable range: address space of a block pool of which pages are mapped and unmapped (`ExpandableSegment`).

torch reserves 9/8 of the device's memory as address space for each range and opens another range when it is used up,
which needs an eighth of the device unmapped in the middle; here a range never ends.
"""

from .blocks import LARGE_BUFFER, SMALL_BUFFER

RANGE_BYTES = 2**39


class ExpandableRange:
    """Unmapped pages as {address: bytes}; neighbouring unmapped pages are always one entry (`BlockPool::unmapped`)."""

    __slots__ = ("base", "page", "unmapped")

    def __init__(self, base: int, *, is_small: bool):
        self.base = base
        self.page = SMALL_BUFFER if is_small else LARGE_BUFFER
        self.unmapped = {base: RANGE_BYTES // self.page * self.page}

    def pages_for(self, nbytes: int) -> int:
        """Bytes of whole pages that hold nbytes from a page boundary on."""
        return -(-nbytes // self.page) * self.page

    def take(self, address: int, nbytes: int) -> None:
        """Pages from the start of an unmapped entry become mapped."""
        size = self.unmapped.pop(address)
        if size > nbytes:
            self.unmapped[address + nbytes] = size - nbytes

    def whole_pages(self, address: int, size: int) -> tuple[int, int]:
        """First and last address of the pages that lie wholly inside a free block (`ExpandableSegment::unmap`)."""
        first = self.base + self.pages_for(address - self.base)
        last = self.base + (address + size - self.base) // self.page * self.page
        return first, max(first, last)

    def give_back(self, first: int, last: int) -> None:
        """Pages become unmapped and join their unmapped neighbours."""
        size = last - first + self.unmapped.pop(last, 0)
        before = next((start for start, length in self.unmapped.items() if start + length == first), None)
        if before is None:
            self.unmapped[first] = size
        else:
            self.unmapped[before] += size
