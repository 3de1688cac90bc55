"""Replaying events: stages, failures, several placements."""

import pytest
from fitproof.errors import UsageError
from fitproof.simulate.blocks import MIB
from fitproof.simulate.placement import ASCENDING, DESCENDING
from fitproof.simulate.replay import replay, replay_under


def test_peaks_belong_to_their_stage():
    result = replay(
        [
            ("alloc", "weights", 30 * MIB),
            ("stage", "rollout"),
            ("alloc", "cache", 50 * MIB),
            ("free", "cache"),
            ("stage", "actor_update"),
            ("alloc", "gradients", 40 * MIB),
            ("free", "gradients"),
            ("empty_cache",),
        ]
    )
    before, rollout, update = result.stages
    assert [s.stage for s in result.stages] == [None, "rollout", "actor_update"]
    assert (before.peak_allocated, before.peak_reserved) == (30 * MIB, 30 * MIB)
    assert (rollout.peak_allocated, rollout.allocated, rollout.reserved) == (80 * MIB, 30 * MIB, 80 * MIB)
    # The cached 50 MiB segment serves 40 MiB, so nothing more is reserved.
    assert (update.peak_allocated, update.peak_reserved, update.reserved) == (70 * MIB, 80 * MIB, 30 * MIB)
    assert (result.peak_allocated, result.peak_reserved) == (80 * MIB, 80 * MIB)
    assert result.completed


def test_a_stage_that_comes_again_is_told_apart():
    events = [("stage", "idle"), ("stage", "rollout"), ("alloc", 1, 1), ("stage", "idle")]
    assert [(s.stage, s.peak_requested) for s in replay(events).stages] == [("idle", 0), ("rollout", 1), ("idle", 1)]


def test_a_replay_stops_where_memory_runs_out_and_says_where():
    events = [("stage", "rollout"), ("alloc", "a", 30 * MIB), ("alloc", "b", 25 * MIB), ("free", "a")]
    result = replay(events, capacity=50 * MIB)
    assert not result.completed
    assert (result.failure.event, result.failure.stage, result.failure.key) == (2, "rollout", "b")
    assert (result.failure.requested_bytes, result.failure.segment_bytes) == (25 * MIB, 26 * MIB)
    assert (result.num_alloc_retries, result.num_ooms, result.smallest_refused) == (1, 1, 56 * MIB)
    assert result.stages[-1].peak_allocated == 30 * MIB


def test_pools_and_streams_reach_the_allocator():
    events = [
        ("alloc", 1, 30 * MIB, "graph"),
        ("free", 1),
        ("alloc", 2, 30 * MIB, None, "side"),
        ("release_pool", "graph"),
        ("empty_cache",),
    ]
    assert replay(events).stages[-1].reserved == 30 * MIB
    assert replay(events).peak_reserved == 60 * MIB


def test_a_key_may_be_used_again_after_its_free():
    events = [("alloc", 1, MIB), ("free", 1)] * 3
    assert replay(events).peak_allocated == MIB


def test_an_unknown_event_is_refused():
    with pytest.raises(UsageError, match="memory event 1 is unknown"):
        replay([("free", 0), ("malloc", 1, 2)])


def test_placements_decide_ties_and_so_what_is_reserved():
    steps = ["15 a", "4 b", "30 c", "-a", "15 d", "20 e", "-b", "20 f"]
    events = [
        ("free", step[1:]) if step[0] == "-" else ("alloc", step.split()[1], int(step.split()[0]) * MIB)
        for step in steps
    ]
    by_name = replay_under(events, (ASCENDING, DESCENDING))
    assert {name: result.peak_reserved // MIB for name, result in by_name.items()} == {
        "ascending": 86,
        "descending": 106,
    }
