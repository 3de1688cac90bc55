"""The simulated executor: runs the trial program on the meta device and keeps its memory events."""

import contextlib
import gc
import io
import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from ..errors import EnvironmentLacks
from ..runner.program import trial
from ..runner.program.recorder import Recorder
from ..schema.settings import Settings
from .nf4 import KNOWN_CAPABILITIES
from .profile import GpuProfile
from .replay import Event, replay
from .seams import Seams
from .tape import Tape
from .workspaces import Workspaces

IDLE = "idle"


@dataclass(frozen=True, kw_only=True, slots=True)
class Simulation:
    """What a dry run made: the allocator's events, with stages named (stage, step); facts; labels of allocations."""

    events: tuple[Event, ...]
    labels: dict[int, str]
    facts: dict[str, int | str]
    attention: dict[str, int]
    operations: int
    device_slack: tuple[int, int]
    """How much less and more than the events say the device may be used by libraries and managed memory."""
    refusal: str | None
    """Why the program itself gave up for lack of memory (a KV pool without room for one sequence); else None."""


class TapeMeter:
    """Stands where a trial reads memory. The bytes of a stage come from the replay, so here are none."""

    def __init__(self, tape: Tape, profile: GpuProfile, settings: Settings):
        self._tape, self._profile, self._settings = tape, profile, settings

    def begin(self) -> dict[str, int]:
        return {}

    def end(self) -> dict[str, int]:
        return {}

    def reserved_bytes(self) -> int:
        """What the allocator has reserved by now. Asked once, when the KV pool is sized."""
        expandable = self._settings.allocator == "expandable_segments"
        return replay(self._tape.events, expandable=expandable, placement=self._profile.placement).stages[-1].reserved


class TapeRecorder(Recorder):
    """Marks the stages on the tape as well: ("stage", (stage, step)), and (idle, step) after each."""

    def __init__(self, stream: io.StringIO, tape: Tape, meter: TapeMeter):
        super().__init__(stream, meter, clock=lambda: 0)
        self._tape = tape

    @contextlib.contextmanager
    def stage(self, name: str, step: int, tokens: int | None = None) -> Iterator[None]:
        with super().stage(name, step, tokens):
            self._tape.mark("stage", (name, step))
            yield
        self._tape.mark("stage", (IDLE, step))


def unsupported(s: Settings, profile: GpuProfile) -> EnvironmentLacks | None:
    """Why a dry run would not be this trial; None where it is."""
    reasons = (
        ("rollout_engine", s.rollout_engine == "hf_generate", "a loop that reads token values on the host"),
        ("rollout_engine", s.rollout_engine in ("hf_paged", "vllm"), "an engine with an allocator of its own"),
        (
            "quantization",
            s.quantization == "nf4" and profile.compute_capability not in KNOWN_CAPABILITIES,
            f"4-bit products on {profile.device_name}, whose kernels are not known",
        ),
    )
    for name, applies, found in reasons:
        if applies:
            return EnvironmentLacks(f"{name}={getattr(s, name)}", found=found, expected="what a dry run can follow",
                                    hint="fitproof run  # measure it on the card")  # fmt: skip
    return None


def simulate(s: Settings, profile: GpuProfile, *, copy_repeats: bool = True) -> Simulation:
    """Run the trial of `s` without a device. Raises EnvironmentLacks for settings it cannot follow.

    `copy_repeats=False` runs every micro-batch, prefill and capture instead of copying the events of equal ones.
    """
    refusal = unsupported(s, profile)
    if refusal is not None:
        raise refusal
    tape = Tape(Workspaces(profile))
    seams = Seams(tape, profile, copy_repeats=copy_repeats)
    stream = io.StringIO()
    recorder = TapeRecorder(stream, tape, TapeMeter(tape, profile, s))
    tape.mark("stage", (IDLE, 0))
    tape.mark("driver", profile.driver_bytes["start"], "start")
    refusal = None
    with _quiet(), seams.applied(), tape:
        try:
            trial.run(s, seed=0, device=torch.device("meta"), recorder=recorder)
        except torch.OutOfMemoryError as error:
            refusal = str(error)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    return Simulation(
        events=tuple(tape.events),
        labels=tape.labels,
        facts={line["name"]: line["value"] for line in lines if line["event"] == "fact"},
        attention=seams.attention.used,
        operations=tape.operations,
        device_slack=seams.bitsandbytes.slack,
        refusal=refusal,
    )


@contextlib.contextmanager
def _quiet():
    """No collection in between: when one comes depends on how many objects the tape itself makes."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        if was_enabled:
            gc.enable()
