"""The optimizer step: accumulated gradients, clipping, AdamW, and the optimizer's state on or off the device."""

from collections.abc import Callable, Iterable, Sequence

import torch

from ...schema.settings import Settings
from . import device as device_ops
from .micro_batches import MicroBatches
from .models import LanguageModel
from .optimizers import is_movable, make_optimizer, own_state, prepare_state

MAX_GRADIENT_NORM = 1.0


class Updater:
    """An optimizer over the trainable parameters of one model. Its state is made by the first step, on the device."""

    def __init__(self, model: LanguageModel, s: Settings, device: torch.device):
        self.model, self.device = model, device
        self.optimizer = make_optimizer(model.trainable(), s, device)
        self._hosts: dict[tuple[torch.Tensor, str], torch.Tensor] = {}

    def update(
        self,
        passes: MicroBatches,
        name: str,
        loss_of: Callable[..., torch.Tensor],
        tensors: Sequence[torch.Tensor],
        micro_batch: int,
    ) -> None:
        """One step on the mean loss of the rows of `tensors` [N, ...]; `loss_of(*rows)` is the mean loss of some rows.

        Micro-batches are weighted by their size, so an uneven last one does not change the mean. Where the pass is
        captured, gradients keep their addresses: they stay allocated from step to step, zeroed.
        """  # fmt: skip
        self.model.causal.train()  # gradient checkpointing works only in training mode
        count, parameters = tensors[0].shape[0], self.model.trainable()
        is_captured = passes.captures(count, micro_batch)
        if is_captured:
            for p in parameters:
                p.grad = torch.zeros_like(p) if p.grad is None else p.grad

        def backward(*rows: torch.Tensor) -> None:
            # One expression: a name for the loss would keep its graph's outputs alive through the next forward pass.
            (loss_of(*rows) * (rows[0].shape[0] / count)).backward()

        passes.run(name, backward, tensors, micro_batch)
        torch.nn.utils.clip_grad_norm_(parameters, MAX_GRADIENT_NORM, foreach=True)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=not (is_captured and passes.keeps_graphs))

    def state(self) -> dict[str, torch.Tensor | float]:
        """'<parameter>/<entry>' -> tensor, on the device or in host memory, or number. Empty before the first step."""
        names = {p: name for name, p in self.model.causal.named_parameters()}
        return {f"{names[p]}/{entry}": value for p, entry, value in own_state(self.optimizer)}

    def restore(self, state: Iterable[tuple[str, torch.Tensor | float]], *, is_away: bool) -> None:
        """Take up entries that `state` gave, as copies: on the device, or with `is_away` in host memory."""
        parameters = dict(self.model.causal.named_parameters())
        prepare_state(self.optimizer)
        for key, value in state:
            name, _, entry = key.rpartition("/")
            p = parameters[name]
            if torch.is_tensor(value) and value.ndim > 0:
                if entry in self.optimizer.state[p]:  # made by the optimizer, where and how it wants it
                    self.optimizer.state[p][entry].copy_(value)
                else:
                    self.optimizer.state[p][entry] = device_ops.to_device(value, self.device)
                if is_away and is_movable(self.optimizer.state[p][entry]):
                    self._copy_out(p, entry)
                    device_ops.synchronize(self.device)
                    self.optimizer.state[p][entry] = self._hosts[p, entry]
            else:  # a step count: optimizers keep it in host memory
                self.optimizer.state[p][entry] = value.clone() if torch.is_tensor(value) else value
        device_ops.synchronize(self.device)  # the tensors given may go when this returns

    def _copy_out(self, p: torch.Tensor, entry: str) -> None:
        value = self.optimizer.state[p][entry]
        self._hosts[p, entry] = device_ops.host_buffer(value)
        self._hosts[p, entry].copy_(value, non_blocking=True)

    def offload(self) -> None:
        """Move the state to (pinned) host memory; nothing to do before the first step."""
        for p, name, value in own_state(self.optimizer):
            if is_movable(value) and (p, name) not in self._hosts:
                self._copy_out(p, name)
        device_ops.synchronize(self.device)
        for (p, name), host in self._hosts.items():
            self.optimizer.state[p][name] = host

    def load(self) -> None:
        """Bring the state back to the device."""
        for (p, name), host in self._hosts.items():
            self.optimizer.state[p][name] = device_ops.to_device(host, self.device)
        # The host copies stay referenced until the copies above are done, then go: pinned memory is the host
        # allocator's to reuse at the next offload.
        device_ops.synchronize(self.device)
        self._hosts.clear()
