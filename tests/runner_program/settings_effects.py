"""What a setting may change, said as data, and how to look: a dry run for memory, a run on the CPU for results."""

import io
import json
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from unittest.mock import patch

import pytest
import torch
from fitproof.errors import EnvironmentLacks
from fitproof.runner.program.engines import cuda_graph
from fitproof.runner.program.engines.hf_generate import HfGenerate
from fitproof.runner.program.engines.hf_paged import HfPagedEngine
from fitproof.runner.program.micro_batches import MicroBatches
from fitproof.runner.program.recipes import grpo, opd, policy, ppo
from fitproof.runner.program.recorder import Recorder
from fitproof.schema.settings import Settings, resolve
from fitproof.simulate.executor import IDLE, simulate
from fitproof.simulate.profile import load_profile
from fitproof.simulate.replay import StageMemory, replay
from program_cases import CPU, loud, stages

ABSENT = "absent"
BITWISE, CLOSE, OTHER, ANY = "bitwise", "close", "other", "any"
# Two sums in another order differ by some 1e-8 here. One Adam step moves a parameter by up to the learning rate, 1e-5,
# and what trains otherwise is apart by that much.
TOLERANCE = 1e-6

RESERVED = 2 * 2**20  # the tiny models are small blocks, and those fit into one segment

Stage = tuple[str, int]


@dataclass(frozen=True, kw_only=True)
class Effect:
    """What `change` does to a trial with the settings `on`. Whatever is not named must stay as it is."""

    change: Mapping[str, object]
    on: Mapping[str, object] = field(default_factory=dict)
    stages: tuple[set[str], set[str]] = (set(), set())
    """Stages that come, and that go, in every step."""
    facts: Mapping[str, object] = field(default_factory=dict)
    """New values, or ABSENT, of the dry run; on the CPU, whose dtype is float32, only the names are compared. Of the
    CPU where there is no dry run."""
    live: Mapping[Stage, int] = field(default_factory=dict)
    """Bytes that tensors hold at the end of a stage: the difference, for stages that both trials have."""
    peak: Mapping[str | Stage, str | int] = field(default_factory=dict)
    """'+', '-', bytes or ANY: the peak of a stage, by its name where in every step. Elsewhere it moves with `live`."""
    reserved: Mapping[Stage, str] = field(default_factory=dict)
    """'+' or '-': the allocator's segments at the end of a stage. Compared only where named: they round to 2 MiB."""
    driver: int | None = None
    """Bytes outside the allocator, at the end. Compared only where named: operations of graphs take some, too."""
    has_same_events: bool = False
    """Not one allocation is another."""
    rollouts: str = BITWISE
    """The sequences: BITWISE, OTHER or ANY. Of the first step, where the result is another: later ones follow it."""
    result: str = BITWISE
    """The trained parameters. CLOSE: equal sums in another order, within TOLERANCE. OTHER: it trains otherwise."""
    is_greedy: bool = False
    """Without sampling, where the order of sequences decides which random number each gets; every sequence its own."""
    fewer: str = ""
    """'decode' or 'micro_batch': what the CPU runs less often."""
    is_dry: bool = True
    """False where a dry run cannot follow: it is refused with exit code 3."""
    is_on_cpu: bool = True
    """False where a CPU cannot do it: it is refused with exit code 3."""

    def __str__(self) -> str:
        change, on = (",".join(f"{name}={value}" for name, value in d.items()) for d in (self.change, self.on))
        return f"{change} on {on}" if on else change


@cache
def dry_run(s: Settings) -> tuple[dict, dict[Stage, StageMemory], tuple]:
    """Facts, memory by stage, and events of the trial on tensors without memory."""
    profile = load_profile("h200")
    simulation = simulate(s, profile)
    assert simulation.refusal is None
    replayed = replay(
        simulation.events, expandable=s.allocator == "expandable_segments", placement=profile.placement
    ).stages
    return simulation.facts, {m.stage: m for m in replayed if m.stage[0] != IDLE}, simulation.written_out()[0]


class StillMeter:
    """Reads nothing: that takes longer than these trials. Gives the reserved bytes that a dry run sizes its pool by."""

    def begin(self) -> dict[str, int]:
        return {}

    def end(self) -> dict[str, int]:
        return {}

    def reserved_bytes(self) -> int:
        return RESERVED


@dataclass(frozen=True)
class CpuRun:
    stages: list[Stage]
    facts: dict[str, object]
    rollouts: list[torch.Tensor]
    parameters: list[torch.Tensor]
    counts: Counter[str]


@cache
def cpu_run(s: Settings, is_greedy: bool = False, seed: int = 3) -> CpuRun:
    """The trial on the CPU, every step, and the parameters it trained."""
    recipe = {"grpo": grpo.Grpo, "ppo": ppo.Ppo, "opd": opd.Opd}[s.algorithm]
    out, rollouts, counts = io.StringIO(), [], Counter()
    with ExitStack() as stack:
        for owner, name, what in ((cuda_graph._Wave, "_step", "decode"), (MicroBatches, "call", "micro_batch")):
            stack.enter_context(patch.object(owner, name, _counted(getattr(owner, name), counts, what)))
        if is_greedy:
            stack.enter_context(patch.object(policy, "make_engine", _greedy_engine))
        torch.manual_seed(seed)
        run = recipe(s, seed=seed, device=CPU, recorder=Recorder(out, StillMeter()))
        rollout = run.engine.rollout
        run.engine.rollout = lambda prompts: rollouts.append(rollout(prompts)) or rollouts[-1].clone()
        run.run()
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    facts = {e["name"]: e["value"] for e in events if e["event"] == "fact"}
    parameters = [p.detach().clone() for u in run.state.updaters.values() for p in u.model.trainable()]
    return CpuRun(stages(events), facts, rollouts, parameters, counts)


def check_dry(effect: Effect, base: Mapping[str, object]) -> None:
    """Stages, facts, live bytes, peaks and, where named, reserved and driver bytes differ as the effect says, and no
    others."""
    old, new = (resolve(**{**base, **effect.on, **change}) for change in ({}, effect.change))
    if not effect.is_dry:
        _check_refusal(dry_run, new)
        return
    (facts, memory, events), (new_facts, new_memory, new_events) = map(dry_run, (old, new))
    assert not effect.has_same_events or new_events == events
    _check_stages(effect, list(memory), list(new_memory))
    assert _changed(facts, new_facts) == dict(effect.facts)
    both = [stage for stage in memory if stage in new_memory]
    live = {stage: new_memory[stage].requested - memory[stage].requested for stage in both}
    assert live == {stage: effect.live.get(stage, 0) for stage in both}
    peaks = {stage: new_memory[stage].peak_requested - memory[stage].peak_requested for stage in both}
    for stage, moved in peaks.items():
        expected = effect.peak.get(stage, effect.peak.get(stage[0], live[stage]))
        assert expected in (moved, ANY, "+" if moved > 0 else "-" if moved < 0 else 0), (stage, moved, expected)
    for stage, sign in effect.reserved.items():
        moved = new_memory[stage].reserved - memory[stage].reserved
        assert moved > 0 if sign == "+" else moved < 0, (stage, moved)
    assert effect.driver in (None, _driver_bytes(new_events) - _driver_bytes(events))


def check_cpu(effect: Effect, base: Mapping[str, object]) -> None:
    """Stages, facts, rollouts and trained parameters differ as the effect says, and no others."""
    without, with_it = (resolve(**{**base, **effect.on, **change}) for change in ({}, effect.change))
    if not effect.is_on_cpu:
        _check_refusal(cpu_run, with_it)
        return
    old, new = (cpu_run(s, effect.is_greedy) for s in (without, with_it))
    _check_stages(effect, old.stages, new.stages)
    changed = _changed(old.facts, new.facts)
    assert set(changed) == set(effect.facts)
    assert effect.is_dry or changed == effect.facts
    assert not effect.is_greedy or len(old.rollouts[0].unique(dim=0)) == without.train_batch_size
    assert effect.result in _alike(old.parameters, new.parameters)
    steps = slice(None) if effect.result != OTHER else slice(1)
    assert effect.rollouts in (ANY, *_alike(old.rollouts[steps], new.rollouts[steps]))
    if effect.fewer:
        assert new.counts[effect.fewer] < old.counts[effect.fewer]
        assert {k: v for k, v in new.counts.items() if k != effect.fewer} == {
            k: v for k, v in old.counts.items() if k != effect.fewer
        }


def _check_refusal(run: Callable[[Settings], object], s: Settings) -> None:
    with pytest.raises(EnvironmentLacks) as caught:
        run(s)
    assert caught.value.exit_code == 3


def _driver_bytes(events: tuple) -> int:
    return sum(e[1] for e in events if e[0] == "driver")


def _check_stages(effect: Effect, old: list[Stage], new: list[Stage]) -> None:
    come, go = effect.stages
    assert [s for s in new if s[0] not in come] == [s for s in old if s[0] not in go]
    assert {name for name, _ in new} - {name for name, _ in old} == come
    assert {name for name, _ in old} - {name for name, _ in new} == go


def _changed(old: dict, new: dict) -> dict[str, object]:
    return {k: new.get(k, ABSENT) for k in {**old, **new} if old.get(k, ABSENT) != new.get(k, ABSENT)}


def _alike(old: list[torch.Tensor], new: list[torch.Tensor]) -> tuple[str, ...]:
    """How they are alike: what is bitwise equal is close as well."""
    assert old
    assert new
    if [t.shape for t in old] != [t.shape for t in new]:
        return (OTHER,)
    if all(torch.equal(a, b) for a, b in zip(old, new, strict=True)):
        return BITWISE, CLOSE
    apart = max((a.double() - b.double()).abs().max().item() for a, b in zip(old, new, strict=True))
    return (CLOSE,) if apart <= TOLERANCE else (OTHER,)


def _counted(function, counts: Counter[str], what: str):
    def run(*args, **kwargs):
        counts[what] += 1
        return function(*args, **kwargs)

    return run


def _greedy_engine(model, s, device, recorder, passes):
    loud(model)
    if s.rollout_engine == "hf_generate":
        return HfGenerate(model, s, device, sample=False)
    engine = {"hf_paged": HfPagedEngine, "cuda_graph": cuda_graph.CudaGraphEngine}[s.rollout_engine]
    return engine(model, s, device, recorder, sample=False)
