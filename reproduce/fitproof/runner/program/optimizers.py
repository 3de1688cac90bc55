"""The optimizers by name: torch's AdamW, and bitsandbytes' with state in 8 bits (Dettmers et al., arXiv 2110.02861).

8-bit state is quantised in blocks of 256 with float32 block maxima and two shared tables of values ("qmap"). Tensors of
fewer than 4,096 elements, as small LoRA matrices are, keep float32 state. The paged form puts states of 100,000
elements and more into managed memory, which moves between host and device by itself.
"""

from collections.abc import Iterable

import torch

from ...errors import EnvironmentLacks
from ...schema.settings import Settings
from .. import bnb

LEARNING_RATE = 1e-5
_SHARED = ("qmap1", "qmap2")


def make_optimizer(parameters: list[torch.nn.Parameter], s: Settings, device: torch.device) -> torch.optim.Optimizer:
    """The optimizer that `s` names. Raises EnvironmentLacks where it needs bitsandbytes or a GPU that is not there."""
    if s.optimizer == "adamw":
        return torch.optim.AdamW(parameters, lr=LEARNING_RATE, weight_decay=0.0, foreach=True)
    setting = f"optimizer={s.optimizer}"
    if s.optimizer == "paged_adamw_8bit" and device.type == "cpu":
        raise EnvironmentLacks(setting, found="a CPU, where nothing is paged", expected="a GPU",
                               hint="--set optimizer=adamw_8bit  # the same state in ordinary memory")  # fmt: skip
    optim = bnb.library(setting).optim
    kind = optim.PagedAdamW8bit if s.optimizer == "paged_adamw_8bit" else optim.AdamW8bit
    return kind(parameters, lr=LEARNING_RATE, weight_decay=0.0)


def own_state(optimizer: torch.optim.Optimizer) -> Iterable[tuple[torch.Tensor, str, torch.Tensor | float]]:
    """(parameter, entry, value) of all state but the tables that all parameters share."""
    for p, state in optimizer.state.items():
        for entry, value in state.items():
            if entry not in _SHARED:
                yield p, entry, value


def is_movable(value: object) -> bool:
    """Whether a state entry is device memory of the optimizer's own: no step count, no managed memory."""
    return torch.is_tensor(value) and value.ndim > 0 and not getattr(value, "is_paged", False)


def prepare_state(optimizer: torch.optim.Optimizer) -> None:
    """Empty 8-bit state where the first step would make it; torch's AdamW takes any tensors and needs none."""
    if not hasattr(optimizer, "init_state"):
        return
    for number, group in enumerate(optimizer.param_groups):
        for index, p in enumerate(group["params"]):
            if not optimizer.state[p]:
                optimizer.init_state(group, p, number, index)
