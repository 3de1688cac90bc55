"""The whole of a trial, from seeding to the last event."""

import torch

from ...errors import EnvironmentLacks
from ...schema.settings import Settings
from .recipes import grpo
from .recorder import CpuMeter, Recorder


def run(settings: Settings, *, seed: int, device: torch.device, recorder: Recorder) -> None:
    """Run every requested step of `settings` on `device` and record it. Failures propagate; the caller records them.

    Raises EnvironmentLacks for what this version of the program does not do.
    """
    if isinstance(recorder.meter, CpuMeter):
        recorder.fact("baseline_process_bytes", recorder.meter.baseline)
    recipes = {"grpo": grpo.run}
    refuse_unsupported(settings, tuple(recipes))
    torch.manual_seed(seed)  # sampling; weights and prompts draw from generators of their own
    recipes[settings.algorithm](settings, seed=seed, device=device, recorder=recorder)
    recorder.finished(settings.total_training_steps)


def refuse_unsupported(s: Settings, algorithms: tuple[str, ...]) -> None:
    rules = [
        (s.algorithm in algorithms, f"algorithm={s.algorithm}", f"algorithm in {', '.join(algorithms)}"),
        (s.checkpoint_every == 0, f"checkpoint_every={s.checkpoint_every}", "checkpoint_every=0"),
    ]
    for holds, subject, expected in rules:
        if not holds:
            raise EnvironmentLacks(subject, found="this version of the trial program", expected=expected,
                                   hint="fitproof plan --help  # choose other settings")  # fmt: skip
