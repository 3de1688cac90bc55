"""The caching allocator with plain segments, rule by rule."""

import pytest
from fitproof.simulate.allocator import CachingAllocator, OutOfMemory
from fitproof.simulate.blocks import MIB
from fitproof.simulate.placement import ASCENDING, DESCENDING


def test_small_requests_share_a_segment_of_2_mib():
    a = CachingAllocator()
    for key in range(4):
        a.malloc(key, 512 * 1024 - 100)
    assert (a.segments, a.reserved) == (1, 2 * MIB)
    assert a.allocated == 2 * MIB
    assert a.requested == 2 * MIB - 400
    a.malloc(4, 1)
    assert a.segments == 2


def test_small_and_large_requests_never_share_a_segment():
    a = CachingAllocator()
    a.malloc("large", 2 * MIB)
    a.malloc("small", MIB)
    assert sorted(a.segment_sizes().values()) == [2 * MIB, 20 * MIB]


def test_a_large_block_is_split_only_where_more_than_1_mib_is_left():
    a = CachingAllocator()
    a.malloc("x", 12 * MIB)
    a.free("x")
    a.malloc("leaves 1 MiB", 11 * MIB)
    assert a.allocated == 12 * MIB
    a.free("leaves 1 MiB")
    a.malloc("leaves more", 11 * MIB - 512)
    assert a.allocated == 11 * MIB - 512
    assert a.inactive_split == MIB + 512


def test_a_small_block_is_split_where_512_bytes_are_left():
    a = CachingAllocator()
    a.malloc("a", MIB)
    a.malloc("b", MIB - 512)
    assert a.inactive_split == 512
    a.malloc("c", 512)
    assert (a.inactive_split, a.segments) == (0, 1)


def test_best_fit_takes_the_smallest_block_and_among_equals_the_lowest_address():
    a = CachingAllocator(placement=DESCENDING)
    for key, size in (("upper", 30 * MIB), ("lower", 30 * MIB), ("large", 60 * MIB)):
        a.malloc(key, size)
    lower = a.address_of("lower")
    assert lower < a.address_of("upper")
    for key in ("large", "upper", "lower"):
        a.free(key)
    a.malloc("again", 29 * MIB + 512)
    assert a.address_of("again") == lower


def test_free_neighbours_merge_on_both_sides_but_not_across_segments():
    a = CachingAllocator(placement=ASCENDING)
    for key in "abcd":
        a.malloc(key, 512 * 1024)
    for key in "efgh":  # the second segment, right behind the first
        a.malloc(key, 512 * 1024)
    for key in "bdca":
        a.free(key)
    assert a.snapshot()[0] == (a.address_of("e") - 2 * MIB, 2 * MIB, False)
    a.free("e")
    assert [size for _, size, live in a.snapshot() if not live] == [2 * MIB, 512 * 1024]


def test_inactive_split_counts_free_bytes_of_segments_in_use():
    a = CachingAllocator()
    a.malloc("a", 5 * MIB)
    a.malloc("b", 5 * MIB)
    assert a.inactive_split == 10 * MIB
    a.free("a")
    assert a.inactive_split == 15 * MIB
    a.free("b")
    assert (a.inactive_split, a.peak_inactive_split) == (0, 15 * MIB)


def test_empty_cache_gives_back_whole_free_segments_only():
    a = CachingAllocator()
    a.malloc("stays", MIB // 2)
    a.malloc("goes", 30 * MIB)
    a.malloc("split", 5 * MIB)
    a.malloc("part", 5 * MIB)
    a.free("goes")
    a.free("part")
    a.empty_cache()
    assert sorted(a.segment_sizes().values()) == [2 * MIB, 20 * MIB]
    assert (a.reserved, a.peak_reserved) == (22 * MIB, 52 * MIB)


def test_a_refused_request_empties_the_cache_and_is_tried_again():
    a = CachingAllocator(capacity=40 * MIB)
    a.malloc("a", 30 * MIB)
    a.free("a")
    a.malloc("b", 40 * MIB)
    assert (a.num_alloc_retries, a.num_ooms, a.reserved) == (1, 0, 40 * MIB)
    assert a.smallest_refused == 70 * MIB


def test_what_does_not_fit_after_the_retry_is_out_of_memory():
    a = CachingAllocator(capacity=40 * MIB)
    a.malloc("a", 5 * MIB)
    with pytest.raises(OutOfMemory) as caught:
        a.malloc("b", 21 * MIB)
    assert (caught.value.requested_bytes, caught.value.segment_bytes) == (21 * MIB, 22 * MIB)
    assert (a.num_alloc_retries, a.num_ooms, a.reserved) == (1, 1, 20 * MIB)
    a.malloc("c", 12 * MIB)  # it can go on
    assert a.allocated == 17 * MIB


def test_a_cached_block_is_used_before_the_capacity_matters():
    a = CachingAllocator(capacity=20 * MIB)
    a.malloc("a", 5 * MIB)
    a.malloc("b", 15 * MIB)
    assert (a.num_alloc_retries, a.reserved) == (0, 20 * MIB)


def test_streams_and_private_pools_keep_their_own_blocks():
    a = CachingAllocator()
    a.malloc("a", 30 * MIB)
    a.free("a")
    a.malloc("other stream", 30 * MIB, None, 1)
    a.malloc("graph", 30 * MIB, "graph")
    assert a.reserved == 90 * MIB
    a.malloc("same", 30 * MIB)
    assert a.reserved == 90 * MIB


def test_a_private_pool_is_released_only_after_its_graphs_are_gone():
    a = CachingAllocator()
    a.malloc("x", 30 * MIB, "graph")
    a.free("x")
    a.empty_cache()
    assert a.reserved == 30 * MIB
    a.release_pool("graph")
    assert a.reserved == 30 * MIB
    a.empty_cache()
    assert a.reserved == 0


def test_capture_does_not_empty_the_cache_before_running_out_of_memory():
    a = CachingAllocator(capacity=40 * MIB)
    a.malloc("x", 30 * MIB)
    a.free("x")
    with pytest.raises(OutOfMemory):
        a.malloc("y", 20 * MIB, "graph")
    assert (a.num_alloc_retries, a.num_ooms, a.reserved) == (0, 1, 30 * MIB)


def test_nothing_is_allocated_for_no_bytes():
    a = CachingAllocator()
    a.malloc("x", 0)
    a.free("x")
    assert (a.allocated, a.reserved) == (0, 0)


def test_peaks_start_again_from_what_stands():
    a = CachingAllocator()
    a.malloc("a", 30 * MIB)
    a.malloc("b", 30 * MIB)
    a.free("b")
    a.reset_peaks()
    assert (a.peak_allocated, a.peak_requested) == (30 * MIB, 30 * MIB)
    assert (a.peak_reserved, a.peak_segments) == (60 * MIB, 2)
