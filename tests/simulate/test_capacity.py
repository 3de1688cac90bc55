"""The least capacity at which events complete."""

from fitproof.simulate.blocks import MIB, SEGMENT_STEP
from fitproof.simulate.capacity import smallest_capacity
from fitproof.simulate.replay import replay
from hypothesis import given, settings
from memory_events import events_in


def test_the_cache_is_given_back_before_a_run_fails():
    events = [("alloc", "a", 30 * MIB), ("free", "a"), ("alloc", "b", 40 * MIB)]
    found = smallest_capacity(events)
    assert (found.capacity, found.without_retries) == (40 * MIB, 70 * MIB)
    assert found.at_capacity.num_alloc_retries == 1


def test_nothing_needs_no_capacity():
    assert smallest_capacity([]).capacity == 0


def test_completing_is_not_monotone_in_the_capacity():
    sizes = {"a": 20, "b": 24, "c": 10, "d": 30}
    steps = (("alloc", "a"), ("free", "a"), ("alloc", "b"), ("alloc", "c"), ("free", "b"), ("alloc", "d"))
    events = [(action, key, sizes[key] * MIB) if action == "alloc" else (action, key) for action, key in steps]
    # With 42 MiB a's segment is given back for b. With 48 it stays, c lands in it, and it can never be given back.
    completes = {capacity: replay(events, capacity=capacity * MIB).completed for capacity in (38, 40, 42, 48, 50, 74)}
    assert completes == {38: False, 40: True, 42: True, 48: False, 50: True, 74: True}
    # One of the two boundaries is found: it completes and fails one step below.
    assert smallest_capacity(events).capacity in (40 * MIB, 50 * MIB)


@settings(max_examples=150, deadline=None)
@given(events_in())
def test_the_boundary_is_a_boundary(case):
    events, expandable = case
    found = smallest_capacity(events, expandable=expandable)
    assert replay(events, capacity=found.capacity, expandable=expandable) == found.at_capacity
    assert found.at_capacity.completed
    assert found.capacity <= found.without_retries
    if found.capacity:
        assert not replay(events, capacity=found.capacity - SEGMENT_STEP, expandable=expandable).completed
    enough = replay(events, capacity=found.without_retries, expandable=expandable)
    assert enough == found.unbounded
    assert enough.num_alloc_retries == 0
    if found.without_retries:
        less = replay(events, capacity=found.without_retries - SEGMENT_STEP, expandable=expandable)
        assert less.num_alloc_retries + less.num_ooms > 0


@settings(max_examples=100, deadline=None)
@given(events_in())
def test_all_capacities_between_the_peak_and_the_least_refusal_go_the_same_way(case):
    events, expandable = case
    peak = replay(events, expandable=expandable).peak_reserved
    for capacity in range(0, peak, max(SEGMENT_STEP, peak // 6 // SEGMENT_STEP * SEGMENT_STEP)):
        result = replay(events, capacity=capacity, expandable=expandable)
        assert result.peak_reserved <= capacity < result.smallest_refused
        for same in (result.peak_reserved, result.smallest_refused - SEGMENT_STEP):
            assert replay(events, capacity=same, expandable=expandable) == result
