"""Which models and optimizers are on the device during a stage; the rest waits in host memory if so set.

A thing is moved out when a stage begins that does not need it, and in when one does: the peaks of every stage are
those of moving everything out after each stage, without the traffic between two stages that need the same thing.
"""

from typing import Protocol

import torch

from ...schema.settings import Settings
from . import device as device_ops


class Movable(Protocol):
    def offload(self) -> None: ...

    def load(self) -> None: ...


class Residency:
    def __init__(self, s: Settings, device: torch.device, models: list[Movable], optimizers: list[Movable]):
        self.device, self.empty_cache = device, s.empty_cache
        self.managed = (models if s.parameter_offload else []) + (optimizers if s.optimizer_offload else [])

    def require(self, *needed: Movable) -> None:
        """Make room first, then bring in what the stage needs."""
        for thing in self.managed:
            if all(thing is not n for n in needed):
                thing.offload()
        for thing in self.managed:
            if any(thing is n for n in needed):
                thing.load()

    def between_stages(self) -> None:
        if self.empty_cache:
            device_ops.empty_cache(self.device)
