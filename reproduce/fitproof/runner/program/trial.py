"""The whole of a trial, from seeding to the last event."""

import torch

from ...errors import EnvironmentLacks
from ...schema.settings import Settings
from .recipes.grpo import Grpo
from .recipes.opd import Opd
from .recipes.ppo import Ppo
from .recorder import CpuMeter, Recorder


def run(settings: Settings, *, seed: int, device: torch.device, recorder: Recorder) -> None:
    """Run every requested step of `settings` on `device` and record it. Failures propagate; the caller records them.

    Raises EnvironmentLacks for what this version of the program does not do.
    """
    if isinstance(recorder.meter, CpuMeter):
        recorder.fact("baseline_process_bytes", recorder.meter.baseline)
    if settings.checkpoint_every:
        raise EnvironmentLacks(
            f"checkpoint_every={settings.checkpoint_every}", found="this version of the trial program",
            expected="checkpoint_every=0", hint="plan the configuration without checkpoints",
        )  # fmt: skip
    recipe = {"grpo": Grpo, "ppo": Ppo, "opd": Opd}[settings.algorithm]
    torch.manual_seed(seed)  # sampling; weights and prompts draw from generators of their own
    recipe(settings, seed=seed, device=device, recorder=recorder).run()
    recorder.finished(settings.total_training_steps)
