"""The whole of a trial, from seeding to the last event."""

from pathlib import Path

import torch

from ...schema.settings import Settings
from ..guard import refuse_unsafe_paging
from . import device as device_ops
from .recipes.grpo import Grpo
from .recipes.opd import Opd
from .recipes.ppo import Ppo
from .recorder import CpuMeter, Recorder


def run(
    settings: Settings,
    *,
    seed: int,
    device: torch.device,
    recorder: Recorder,
    checkpoints: Path | None = None,
    hold_after: int | None = None,
) -> None:
    """Run every requested step of `settings` on `device` and record it. Failures propagate; the caller records them.

    `checkpoints` is this trial's folder for them (checkpoint_every > 0). Where it holds a whole one, the run goes on
    from there and records the fact `resumed_from_step`; to start anew, give an empty folder. None: checkpoints take
    their stage and their copies to the host, and are written nowhere. `hold_after`: once this step and its checkpoint
    are done, say so and wait to be killed.

    Raises EnvironmentLacks for what this version of the program does not do, for settings whose library is not
    installed, and for a paged optimizer that this device has too little memory free for.
    """
    free = device_ops.free_bytes(device)
    if free is not None:
        refuse_unsafe_paging(settings, free)
    if isinstance(recorder.meter, CpuMeter):
        recorder.fact("baseline_process_bytes", recorder.meter.baseline)
    recipe = {"grpo": Grpo, "ppo": Ppo, "opd": Opd}[settings.algorithm]
    torch.manual_seed(seed)  # sampling; weights and prompts draw from generators of their own
    recipe(settings, seed=seed, device=device, recorder=recorder, checkpoints=checkpoints).run(hold_after)
    recorder.finished(settings.total_training_steps)
