"""One configuration's memory, stage by stage, and whether it fits: a dry run, replayed under the capacity."""

import time
from dataclasses import dataclass

from ..schema.settings import Settings
from ..simulate.capacity import smallest_capacity
from ..simulate.executor import IDLE, Simulation, simulate
from ..simulate.placement import ASCENDING, DESCENDING
from ..simulate.profile import GpuProfile, load_profile
from ..simulate.replay import Replay, replay

MIB = 2**20
MARGIN_BYTES = 2048 * MIB
LEAST_LABELLED_BYTES = 4096 * MIB


@dataclass(frozen=True, kw_only=True, slots=True)
class StagePrediction:
    """Peaks of a stage over all steps, under the capacity; `is_complete` False where memory ran out in it."""

    stage: str
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    peak_device_used_bytes: int
    is_complete: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Holder:
    """Live allocations at the peak of allocated bytes: made by one operation in one stage."""

    operation: str
    stage: str
    nbytes: int
    count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """What a trial of `settings` would show. Where it runs out of memory, peaks are what it held until then."""

    capacity_bytes: int
    completes: bool
    label: str | None
    """within_margin, above_margin or memory_failure; None below 4,096 MiB of capacity."""
    failure: str | None
    failure_stage: str | None
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    peak_device_used_bytes: int
    smallest_capacity_bytes: int | None
    """Least the card must offer, for the KV pool as it was sized; None where the program gave up by itself."""
    smallest_without_retries_bytes: int | None
    alloc_retries: int
    stages: tuple[StagePrediction, ...]
    bound_by: tuple[Holder, ...]
    interval: dict[str, tuple[int, int]]
    """Lowest and highest under other placements of segments and the spread of driver bytes."""
    facts: dict[str, int | str]
    attention: dict[str, int]
    profile: str
    seconds: float


def predict(s: Settings, gpu: str = "h200", *, capacity_bytes: int | None = None, search: bool = True) -> Prediction:
    """Predict a trial of `s` on the profiled card. `capacity_bytes`: what the driver has free, if not what `s` says.
    Without `search` the smallest capacities stay None and the interval empty: it takes some ten replays.

    Raises EnvironmentLacks for settings that a dry run cannot follow, UsageError for an unknown profile.
    """
    started = time.perf_counter()
    profile = load_profile(gpu)
    simulation = simulate(s, profile)
    capacity = capacity_bytes or (profile.device_total_bytes if s.capacity_mib is None else s.capacity_mib * MIB)
    expandable = s.allocator == "expandable_segments"
    at = {"expandable": expandable, "placement": profile.placement}
    run = replay(simulation.events, capacity=capacity, **at)
    completes = run.completed and simulation.refusal is None
    least = smallest_capacity(simulation.events, **at) if search and simulation.refusal is None else None
    failure, failure_stage = _failure(simulation, run)
    return Prediction(
        capacity_bytes=capacity,
        completes=completes,
        label=label(completes, run.peak_device_used, capacity),
        failure=failure,
        failure_stage=failure_stage,
        peak_allocated_bytes=run.peak_allocated,
        peak_reserved_bytes=run.peak_reserved,
        peak_device_used_bytes=run.peak_device_used,
        smallest_capacity_bytes=least and least.capacity,
        smallest_without_retries_bytes=least and least.without_retries,
        alloc_retries=run.num_alloc_retries,
        stages=_stages(run, failure_stage),
        bound_by=_bound_by(simulation),
        interval=(
            _interval(simulation, run, least and least.capacity, capacity, profile, expandable) if search else {}
        ),
        facts=simulation.facts,
        attention=simulation.attention,
        profile=profile.name,
        seconds=round(time.perf_counter() - started, 3),
    )


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
        what = simulation.labels.get(run.failure.key, run.failure.key)
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


def _interval(
    simulation: Simulation, run: Replay, least: int | None, capacity: int, profile: GpuProfile, expandable: bool
) -> dict[str, tuple[int, int]]:
    others = [run] if expandable else [
        run, *(replay(simulation.events, capacity=capacity, placement=p) for p in (ASCENDING, DESCENDING))
    ]  # fmt: skip
    reserved = [other.peak_reserved for other in others]
    used = [other.peak_device_used for other in others]
    below, above = (profile.driver_spread_bytes + slack for slack in simulation.device_slack)
    interval = {
        "peak_reserved_bytes": (min(reserved), max(reserved)),
        "peak_device_used_bytes": (min(used) - below, max(used) + above),
    }
    if least is not None:
        interval["smallest_capacity_bytes"] = (least - below, least + above)
    return interval


def _bound_by(simulation: Simulation, most: int = 5) -> tuple[Holder, ...]:
    """The largest groups of allocations that are live when requested bytes peak, without a capacity."""
    live: dict[int, tuple[int, str]] = {}
    total, peak, at, stage = 0, 0, 0, IDLE
    for index, event in enumerate(simulation.events):
        if event[0] == "alloc":
            live[event[1]] = (event[2], stage)
            total += event[2]
            if total > peak:
                peak, at = total, index
        elif event[0] == "free":
            total -= live.pop(event[1], (0, ""))[0]
        elif event[0] == "stage":
            stage = event[1][0]
    live, stage = {}, IDLE
    for event in simulation.events[: at + 1]:
        if event[0] == "alloc":
            live[event[1]] = (event[2], stage)
        elif event[0] == "free":
            live.pop(event[1], None)
        elif event[0] == "stage":
            stage = event[1][0]
    groups: dict[tuple[str, str], list[int]] = {}
    for key, (nbytes, born) in live.items():
        groups.setdefault((simulation.labels[key], born), []).append(nbytes)
    holders = [Holder(operation=o, stage=b, nbytes=sum(n), count=len(n)) for (o, b), n in groups.items()]
    return tuple(sorted(holders, key=lambda h: (-h.nbytes, h.operation, h.stage))[:most])
