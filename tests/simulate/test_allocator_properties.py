"""What holds for any stream of events."""

from itertools import pairwise

from fitproof.simulate.allocator import CachingAllocator, OutOfMemory
from fitproof.simulate.blocks import MIB
from fitproof.simulate.placement import ASCENDING, DESCENDING, H200
from fitproof.simulate.replay import replay
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from memory_events import events_in

PLACEMENTS = st.sampled_from([ASCENDING, DESCENDING, H200])
CAPACITIES = st.one_of(st.none(), st.integers(0, 200).map(lambda mib: mib * MIB))


def steps(allocator: CachingAllocator, events):
    """Apply the events one by one, stopping after an OOM."""
    for action, *rest in events:
        try:
            if action == "alloc":
                allocator.malloc(*rest)
            elif action == "free":
                allocator.free(*rest)
            elif action == "empty_cache":
                allocator.empty_cache()
            else:
                allocator.reset_peaks()
        except OutOfMemory:
            return
        yield action, rest


@settings(max_examples=200, deadline=None)
@given(events_in(), PLACEMENTS, CAPACITIES)
def test_bytes_add_up_after_every_event(case, placement, capacity):
    events, expandable = case
    allocator = CachingAllocator(capacity=capacity, expandable=expandable, placement=placement)
    requested = {}
    for action, rest in steps(allocator, events):
        if action == "alloc":
            requested[rest[0]] = rest[1]
        elif action == "free":
            del requested[rest[0]]
        blocks = allocator.snapshot()
        assert allocator.requested == sum(requested.values())
        assert allocator.allocated == sum(size for _, size, live in blocks if live)
        assert allocator.reserved == sum(size for _, size, _ in blocks)
        assert allocator.requested <= allocator.allocated <= allocator.reserved
        assert capacity is None or allocator.reserved <= capacity
        for now, peak in (("allocated", "peak_allocated"), ("reserved", "peak_reserved")):
            assert getattr(allocator, now) <= getattr(allocator, peak)
        assert allocator.inactive_split <= allocator.peak_inactive_split


@settings(max_examples=200, deadline=None)
@given(events_in(), PLACEMENTS)
def test_blocks_tile_plain_segments(case, placement):
    events, expandable = case
    assume(not expandable)
    allocator = CachingAllocator(placement=placement)
    for _ in steps(allocator, events):
        segments = allocator.segment_sizes()
        assert allocator.reserved == sum(segments.values())
        starts = sorted(segments)
        assert all(a + segments[a] <= b for a, b in pairwise(starts))
        blocks = allocator.snapshot()
        inactive_split = 0
        for start in starts:
            inside = [block for block in blocks if start <= block[0] < start + segments[start]]
            end, was_free = start, False
            for address, size, live in inside:
                assert address == end
                assert live or not was_free, "free neighbours were not merged"
                end, was_free = address + size, not live
            assert end == start + segments[start]
            if any(live for _, _, live in inside):
                inactive_split += sum(size for _, size, live in inside if not live)
        assert allocator.inactive_split == inactive_split


@settings(max_examples=200, deadline=None)
@given(events_in())
def test_blocks_of_an_expandable_range_never_overlap_and_free_neighbours_are_merged(case):
    events, _ = case
    allocator = CachingAllocator(expandable=True)
    for _ in steps(allocator, events):
        blocks = allocator.snapshot()
        for (address, size, live), (following, _, next_live) in pairwise(blocks):
            assert address + size <= following
            assert live or next_live or address + size < following
        assert allocator.reserved % (2 * MIB) == 0


@settings(max_examples=150, deadline=None)
@given(events_in(), PLACEMENTS)
def test_freeing_everything_and_emptying_the_cache_leaves_nothing(case, placement):
    events, expandable = case
    allocator = CachingAllocator(expandable=expandable, placement=placement)
    live = []
    for action, rest in steps(allocator, events):
        if action == "alloc":
            live.append(rest[0])
        elif action == "free":
            live.remove(rest[0])
    for key in live:
        allocator.free(key)
    allocator.release_pool("graph")
    allocator.empty_cache()
    assert (allocator.allocated, allocator.reserved, allocator.segments, allocator.inactive_split) == (0, 0, 0, 0)
    assert allocator.snapshot() == []


@settings(max_examples=100, deadline=None)
@given(events_in(), PLACEMENTS, CAPACITIES)
def test_a_replay_is_deterministic_and_ignores_what_keys_are_called(case, placement, capacity):
    events, expandable = case
    renamed = [(e[0], f"key {e[1]}", *e[2:]) if e[0] in ("alloc", "free") else e for e in events]
    first, second = (
        replay(stream, capacity=capacity, expandable=expandable, placement=placement) for stream in (events, renamed)
    )
    assert first.stages == second.stages
    assert first == replay(events, capacity=capacity, expandable=expandable, placement=placement)


@settings(max_examples=150, deadline=None)
@given(events_in())
def test_expandable_segments_hold_less_than_a_page_beyond_what_a_first_fill_needs(case):
    """Without frees a range is a stack: each pool and size class reserves its blocks, rounded up to one page."""
    events, _ = case
    fills = [e for e in events if e[0] == "alloc"]
    pools = {}
    for _, _, nbytes, pool, stream in fills:
        size = -(-nbytes // 512) * 512
        key = (pool, stream, size > MIB)
        pools[key] = pools.get(key, 0) + size
    pages = {key: 20 * MIB if key[2] else 2 * MIB for key in pools}
    expected = sum(-(-size // pages[key]) * pages[key] for key, size in pools.items())
    assert replay(fills, expandable=True).peak_reserved == expected
