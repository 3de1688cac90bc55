"""One configuration's memory, stage by stage, and whether it fits: a dry run, replayed under the capacity."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from ..schema.records import STAGES
from ..schema.settings import Settings
from ..simulate.capacity import SmallestCapacity, smallest_capacity
from ..simulate.executor import IDLE, Simulation, simulate
from ..simulate.placement import ASCENDING, DESCENDING, Placement
from ..simulate.profile import GpuProfile, load_profile
from ..simulate.replay import Replay, replay
from ..simulate.template import Event
from .answer import Holder, Prediction, StagePrediction

MIB = 2**20
MARGIN_BYTES = 2048 * MIB
LEAST_LABELLED_BYTES = 4096 * MIB


@dataclass(frozen=True, kw_only=True, slots=True)
class Trace:
    """One run of the program, to be asked about capacities. `least` is None where the program gave up by itself."""

    simulation: Simulation
    profile: GpuProfile
    expandable: bool
    least: SmallestCapacity | None
    seconds: float


def trace(s: Settings, gpu: str = "h200") -> Trace:
    """Run the trial of `s` without a device and search for its smallest capacity. Raises EnvironmentLacks for settings
    that a dry run cannot follow, UsageError for an unknown profile.
    """
    started = time.perf_counter()
    profile = load_profile(gpu)
    simulation = simulate(s, profile)
    expandable = s.allocator == "expandable_segments"
    least = None
    if simulation.refusal is None:
        least = smallest_capacity(simulation.events, expandable=expandable, placement=profile.placement)
    seconds = time.perf_counter() - started
    return Trace(simulation=simulation, profile=profile, expandable=expandable, least=least, seconds=seconds)


def capacity_bytes(s: Settings, gpu: str = "h200") -> int:
    """What the driver has free for a trial of `s`: what the settings say, or the whole card."""
    return load_profile(gpu).device_total_bytes if s.capacity_mib is None else s.capacity_mib * MIB


def predict(s: Settings, gpu: str = "h200") -> Prediction:
    """Predict a trial of `s` on the profiled card. Raises as `trace` does."""
    return at_capacity(trace(s, gpu), capacity_bytes(s, gpu))


def at_capacity(of: Trace, capacity: int) -> Prediction:
    """What the traced trial would show with `capacity` bytes free on the card."""
    started = time.perf_counter()
    simulation, least = of.simulation, of.least
    run = _replayed(of, capacity, of.profile.placement)
    completes = run.completed and simulation.refusal is None
    failure, failure_stage = _failure(simulation, run)
    stages = _stages(run, failure_stage)
    highest = max(stages, key=lambda s: (s.peak_allocated_bytes, -STAGES.index(s.stage)), default=None)
    return Prediction(
        capacity_bytes=capacity,
        completes=completes,
        label=label(completes, run.peak_device_used, capacity),
        failure=failure,
        failure_stage=failure_stage,
        peak_allocated_bytes=run.peak_allocated,
        peak_reserved_bytes=run.peak_reserved,
        peak_device_used_bytes=run.peak_device_used,
        peak_stage=highest and highest.stage,
        smallest_capacity_bytes=least and least.capacity,
        smallest_without_retries_bytes=least and least.without_retries,
        alloc_retries=run.num_alloc_retries,
        stages=stages,
        bound_by=_bound_by(simulation),
        interval=_interval(of, run, capacity),
        facts=simulation.facts,
        attention=simulation.attention,
        profile=of.profile.name,
        seconds=round(of.seconds + time.perf_counter() - started, 3),
    )


def _replayed(of: Trace, capacity: int, placement: Placement) -> Replay:
    """The replay under the capacity. Up to its first refusal it is the unbounded one."""
    if of.least is not None and placement == of.profile.placement:
        for known in (of.least.unbounded, of.least.at_capacity):
            if known.peak_device_used <= capacity < (known.smallest_refused or capacity + 1):
                return known
    return replay(of.simulation.events, capacity=capacity, expandable=of.expandable, placement=placement)


def label(completes: bool, peak_device_used: int, capacity: int) -> str | None:
    """The label that three such trials would give the configuration."""
    if capacity < LEAST_LABELLED_BYTES:
        return None
    if not completes:
        return "memory_failure"
    return "within_margin" if peak_device_used <= capacity - MARGIN_BYTES else "above_margin"


def _failure(simulation: Simulation, run: Replay) -> tuple[str | None, str | None]:
    """What ran out of memory, in words, and the stage."""
    if run.failure is not None:
        event = simulation.events[run.failure.event]
        labels = event[1].labels if event[0] == "copy" else simulation.labels
        key = run.failure.key - event[2] if event[0] == "copy" else run.failure.key
        what = key if event[0] == "driver" else labels[key]
        return f"{what} asked for {run.failure.requested_bytes} bytes", run.failure.stage[0]
    if simulation.refusal is not None:
        return simulation.refusal, run.stages[-1].stage[0]
    return None, None


def _stages(run: Replay, failure_stage: str | None) -> tuple[StagePrediction, ...]:
    found: dict[str, list] = {}
    for memory in run.stages:
        if memory.stage[0] != IDLE:
            found.setdefault(memory.stage[0], []).append(memory)
    failed = run.stages[-1].stage
    return tuple(
        StagePrediction(
            stage=name,
            peak_allocated_bytes=max(m.peak_allocated for m in runs),
            peak_reserved_bytes=max(m.peak_reserved for m in runs),
            peak_device_used_bytes=max(m.peak_device_used for m in runs),
            is_complete=not (failure_stage == name and runs[-1].stage == failed),
        )
        for name, runs in found.items()
    )


def _interval(of: Trace, run: Replay, capacity: int) -> dict[str, tuple[int, int]]:
    others = [run] if of.expandable else [run, *(_replayed(of, capacity, p) for p in (ASCENDING, DESCENDING))]
    reserved = [other.peak_reserved for other in others]
    used = [other.peak_device_used for other in others]
    below, above = (of.profile.driver_spread_bytes + slack for slack in of.simulation.device_slack)
    interval = {
        "peak_reserved_bytes": (min(reserved), max(reserved)),
        "peak_device_used_bytes": (min(used) - below, max(used) + above),
    }
    if of.least is not None:
        interval["smallest_capacity_bytes"] = (of.least.capacity - below, of.least.capacity + above)
    return interval


def _bound_by(simulation: Simulation, most: int = 5) -> tuple[Holder, ...]:
    """The largest groups of allocations that are live when requested bytes peak, without a capacity."""
    total = peak = at = 0
    sizes: dict[int, int] = {}
    for index, event in enumerate(simulation.events):
        above = 0  # what an event holds at most, beyond what it leaves
        if event[0] == "alloc":
            sizes[event[1]] = event[2]
            total += event[2]
        elif event[0] == "free":
            total -= sizes.pop(event[1], 0)
        elif event[0] == "copy":
            left = {event[2] + key: event[1].sizes[key] for key in event[1].left}
            sizes.update(left)
            above = event[1].peak_bytes - sum(left.values())
            total += sum(left.values())
        if total + above > peak:
            peak, at = total + above, index
    labels = dict(simulation.labels)
    live: dict[int, tuple[int, str]] = {}
    stage = IDLE
    for event in _up_to_peak(simulation.events, at, labels):
        if event[0] == "alloc":
            live[event[1]] = (event[2], stage)
        elif event[0] == "free":
            live.pop(event[1], None)
        elif event[0] == "stage":
            stage = event[1][0]
    groups: dict[tuple[str, str], list[int]] = {}
    for key, (nbytes, born) in live.items():
        groups.setdefault((labels[key], born), []).append(nbytes)
    holders = [Holder(operation=o, stage=b, nbytes=sum(n), count=len(n)) for (o, b), n in groups.items()]
    return tuple(sorted(holders, key=lambda h: (-h.nbytes, h.operation, h.stage))[:most])


def _up_to_peak(events: Sequence[Event], at: int, labels: dict[int, str]) -> Iterator[Event]:
    """Events up to event `at`; of earlier copies what they leave, of a copy there all until its own peak, labelled."""
    for event in events[:at]:
        if event[0] == "copy":
            yield from (("alloc", event[2] + key, event[1].sizes[key]) for key in event[1].left)
        else:
            yield event
    last = events[at]
    if last[0] != "copy":
        yield last
        return
    labels.update((last[2] + key, label) for key, label in enumerate(last[1].labels))
    yield from islice(last[1].expanded(last[2]), last[1].peak_at + 1)
