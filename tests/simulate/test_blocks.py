"""Sizes and free lists."""

import pytest
from fitproof.simulate.blocks import MIB, BlockPool, allocation_size, round_size


@pytest.mark.parametrize(("nbytes", "size"), [(1, 512), (512, 512), (513, 1024), (MIB, MIB), (MIB + 1, MIB + 512)])
def test_requests_are_rounded_to_512_bytes(nbytes, size):
    assert round_size(nbytes) == size


@pytest.mark.parametrize(
    ("size", "segment"),
    [
        (512, 2 * MIB),
        (MIB, 2 * MIB),
        (MIB + 512, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB),
        (10 * MIB + 512, 12 * MIB),
        (25 * MIB, 26 * MIB),
    ],
)
def test_segment_sizes(size, segment):
    assert allocation_size(size) == segment


def test_free_blocks_are_ordered_by_size_then_address():
    pool = BlockPool(is_private=False, smallest_rest=512)
    for address, size in ((9 * MIB, 512), (3 * MIB, 1024), (2**47 - MIB, 512), (MIB, 1024)):
        pool.add(address, size)
    pool.drop(9 * MIB, 512)
    assert [block & (2**48 - 1) for block in pool.free] == [2**47 - MIB, MIB, 3 * MIB]
    assert pool.end_of_free[3 * MIB + 1024] == 3 * MIB
