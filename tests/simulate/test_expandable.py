"""The caching allocator with expandable segments, rule by rule."""

import pytest
from fitproof.simulate.allocator import CachingAllocator, OutOfMemory
from fitproof.simulate.blocks import MIB
from fitproof.simulate.expandable import ExpandablePool


def test_a_range_grows_by_pages_of_2_and_20_mib():
    a = CachingAllocator(expandable=True)
    a.malloc("small", 1)
    assert a.reserved == 2 * MIB
    a.malloc("large", 21 * MIB)
    assert a.reserved == 42 * MIB
    assert a.segments == 0  # torch does not count ranges as segments


def test_the_free_tail_grows_by_what_is_missing():
    a = CachingAllocator(expandable=True)
    a.malloc("a", 15 * MIB)
    a.malloc("b", 15 * MIB)
    assert a.reserved == 40 * MIB
    assert a.address_of("b") == a.address_of("a") + 15 * MIB


def test_large_blocks_are_split_where_512_bytes_are_left():
    a = CachingAllocator(expandable=True)
    a.malloc("a", 20 * MIB - 512)
    assert a.allocated == 20 * MIB - 512
    assert a.inactive_split == 0  # torch leaves expandable segments out of it


def test_the_tail_counts_as_large_as_it_can_grow():
    a = CachingAllocator(expandable=True)
    for key, size in (("hole", 14 * MIB), ("wall", 2 * MIB), ("tail", 10 * MIB)):
        a.malloc(key, size)
    hole = a.address_of("hole")
    a.free("hole")
    a.free("tail")
    # By its size the tail (24 MiB) is not the best fit for 13 MiB, and neither is it where it is the smaller block.
    a.malloc("x", 13 * MIB)
    assert a.address_of("x") == hole
    a.free("x")
    a.malloc("y", 15 * MIB)
    a.malloc("z", 5 * MIB)  # the tail has 9 MiB left and the hole 14: the hole still counts as the smaller
    assert a.address_of("z") == hole


def test_whole_free_pages_go_back_from_the_middle_and_are_mapped_again_first():
    a = CachingAllocator(expandable=True)
    for key, size in (("a", 10 * MIB), ("b", 50 * MIB), ("c", 20 * MIB)):
        a.malloc(key, size)
    start = a.address_of("a")
    a.free("b")
    a.empty_cache()
    # Pages 20 to 60 MiB were wholly free; of the page that holds the end of a, half stays as a free block.
    assert a.reserved == 40 * MIB
    assert [(address - start, size, live) for address, size, live in a.snapshot()] == [
        (0, 10 * MIB, True),
        (10 * MIB, 10 * MIB, False),
        (60 * MIB, 20 * MIB, True),
    ]
    a.malloc("d", 45 * MIB)
    assert a.address_of("d") == start + 10 * MIB
    assert a.reserved == 80 * MIB


def test_a_hole_too_small_is_passed_over():
    a = CachingAllocator(expandable=True)
    for key, size in (("a", 20 * MIB), ("b", 20 * MIB), ("c", 20 * MIB)):
        a.malloc(key, size)
    start = a.address_of("a")
    a.free("b")
    a.empty_cache()
    a.malloc("d", 25 * MIB)
    assert a.address_of("d") == start + 60 * MIB
    assert a.reserved == 80 * MIB


def test_everything_unmapped_begins_anew():
    a = CachingAllocator(expandable=True)
    a.malloc("a", 50 * MIB)
    start = a.address_of("a")
    a.free("a")
    a.empty_cache()
    assert (a.reserved, a.snapshot()) == (0, [])
    a.malloc("b", 5 * MIB)
    assert (a.address_of("b"), a.reserved) == (start, 20 * MIB)


def test_refused_pages_empty_the_cache_and_are_tried_again():
    a = CachingAllocator(expandable=True, capacity=60 * MIB)
    for key, size in (("a", 20 * MIB), ("b", 20 * MIB), ("c", 20 * MIB)):
        a.malloc(key, size)
    a.free("a")
    a.malloc("d", 2 * MIB)
    a.free("d")
    a.free("b")
    a.malloc("e", 40 * MIB)
    assert (a.num_alloc_retries, a.reserved) == (0, 60 * MIB)
    a.free("e")
    a.malloc("f", 30 * MIB)
    a.free("c")
    with pytest.raises(OutOfMemory):
        a.malloc("g", 35 * MIB)
    assert (a.num_alloc_retries, a.num_ooms) == (1, 1)


def test_private_pools_have_ranges_of_their_own():
    a = CachingAllocator(expandable=True)
    a.malloc("a", 5 * MIB)
    a.malloc("b", 5 * MIB, "graph")
    assert a.reserved == 40 * MIB
    a.free("b")
    a.empty_cache()
    assert a.reserved == 40 * MIB
    a.release_pool("graph")
    a.empty_cache()
    assert a.reserved == 20 * MIB


def test_unmapped_pages_join_their_neighbours():
    pool = ExpandablePool(is_private=False, is_small=False, base=0)
    everything = dict(pool.unmapped)
    for size in (20 * MIB, 20 * MIB, 20 * MIB):
        pool.map(size, lambda nbytes: True)
    for address in (20 * MIB, 0, 40 * MIB):  # alone; before the first; between it and the rest of the range
        pool.add(address, 20 * MIB)
        assert pool.unmap() == 20 * MIB
    assert pool.unmapped == everything


def test_a_block_before_few_unmapped_pages_counts_as_large_as_it_and_they():
    pool = ExpandablePool(is_private=False, is_small=False, base=0)
    for size in (20 * MIB, 40 * MIB, 60 * MIB):
        pool.map(size, lambda nbytes: True)
    pool.add(10 * MIB, 30 * MIB)  # the page from 20 to 40 MiB is unmapped, 10 to 20 stays free before it
    pool.unmap()
    pool.add(100 * MIB, 20 * MIB - 512)
    pool.add(60 * MIB, 25 * MIB)
    sizes = [block >> 48 for block in pool.free]
    assert sizes == [10 * MIB, 20 * MIB - 512, 25 * MIB]
    # The first can grow to 30 MiB, so the second is the best fit.
    assert pool.best_fit(0) == 1
