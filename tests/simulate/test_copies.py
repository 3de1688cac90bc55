"""Copies of a template cost less and change nothing: the replay is that of their events written out."""

from dataclasses import replace

from fitproof.simulate.allocator import CachingAllocator
from fitproof.simulate.blocks import MIB, SEGMENT_STEP
from fitproof.simulate.placement import ASCENDING, DESCENDING
from fitproof.simulate.replay import replay
from fitproof.simulate.template import Template, expanded
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_events import POOLS, SIZES

FIRST_COPIED_KEY = 1_000_000


@st.composite
def templates(draw):
    """Allocations and frees of their own; some stay live."""
    events, live, key = [], [], 0
    for _ in range(draw(st.integers(1, 14))):
        if live and draw(st.booleans()):
            events.append(("free", live.pop(draw(st.integers(0, len(live) - 1)))))
        else:
            events.append(("alloc", key, draw(SIZES)))
            live.append(key)
            key += 1
    for key in live if draw(st.booleans()) else live[1:]:
        events.append(("free", key))
    return Template(events=tuple(events), labels=("made",) * (1 + max(e[1] for e in events)))


@st.composite
def streams(draw):
    """(events with copies, whether segments are expandable)."""
    known, events, live, key, copied = draw(st.lists(templates(), min_size=1, max_size=2)), [], [], 0, FIRST_COPIED_KEY
    for _ in range(draw(st.integers(1, 25))):
        action = draw(st.integers(0, 11))
        if action < 6:
            template, place = draw(st.sampled_from(known)), draw(st.sampled_from([(), (None, 1), ("graph", 1)]))
            for _ in range(draw(st.integers(1, 5))):
                events.append(("copy", template, copied, *place))
                copied += len(template.labels)
        elif action < 8 or not live:
            events.append(("alloc", key, draw(SIZES), *draw(POOLS)))
            live.append(key)
            key += 1
        elif action < 10:
            events.append(("free", live.pop(draw(st.integers(0, len(live) - 1)))))
        else:
            events.append(
                draw(st.sampled_from([("empty_cache",), ("stage", "rollout"), ("driver", 3 * MIB, "library")]))
            )
    return events, draw(st.booleans())


def without_index(run):
    """A replay without the index of the failing event, which counts a copy as one."""
    return replace(run, failure=run.failure and replace(run.failure, event=0))


@settings(max_examples=300, deadline=None)
@given(streams())
def test_a_copy_is_its_events(case):
    events, expandable = case
    flat = list(expanded(events))
    unbounded = replay(flat, expandable=expandable)
    peak, least = unbounded.peak_device_used, unbounded.peak_requested
    for capacity in (None, peak, *(least + share * (peak - least) // 4 for share in range(4)), peak - SEGMENT_STEP):
        for placement in (ASCENDING, DESCENDING):
            at = {"capacity": capacity, "expandable": expandable, "placement": placement}
            assert without_index(replay(events, **at)) == without_index(replay(flat, **at))


def test_later_copies_are_skipped_and_their_peaks_counted(monkeypatch):
    calls, malloc = [], CachingAllocator.malloc
    monkeypatch.setattr(
        CachingAllocator, "malloc", lambda self, key, *more: (calls.append(key), malloc(self, key, *more))
    )
    template = Template(
        events=(("alloc", 0, 30 * MIB), ("alloc", 1, 1000), ("free", 1), ("free", 0)), labels=("a", "b")
    )
    assert (template.peak_bytes, template.peak_at, template.left) == (30 * MIB + 1000, 1, ())
    run = replay([("copy", template, 0), ("copy", template, 2), ("copy", template, 4), ("stage", "later"),
                  ("copy", template, 6)])  # fmt: skip
    assert calls == [0, 1, 2, 3]  # segments are taken in the first, the second shows that it changes nothing
    assert (run.stages[-1].peak_requested, run.stages[-1].peak_allocated) == (30 * MIB + 1000, 30 * MIB + 1024)
    assert run.stages[-1].requested == 0
