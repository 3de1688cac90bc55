"""The micro-batches of scoring passes and updates: one after the other, or replayed from a CUDA graph.

A micro-batch is bound by launching its kernels, not by running them: a LoRA update of a 0.6 B model launches some
11,000 of them, and the GPU waits for the host nine tenths of the time. With `capture_micro_batches` a pass over equal
micro-batches is captured once a trial and replayed for each. The price is memory: the graphs' private pool holds what
one micro-batch needs for as long as the graphs live, and no other stage can use it.

With `micro_batch_coverage=edges` a pass runs its first micro-batch, the last of the same size, and a smaller one after
it. Micro-batches of one pass have equal shapes and leave nothing behind but their results and the gradients they add
to, so those between would make the same allocations once more: only their results are made.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import torch

from ...schema.settings import Settings
from . import device as device_ops

Result = torch.Tensor | tuple[torch.Tensor, ...] | None
WORTH_CAPTURING = 3  # equal micro-batches, or steps, from which on a capture pays for itself


@dataclass(frozen=True, slots=True)
class _Captured:
    inputs: tuple[torch.Tensor, ...]
    replay: Callable[[], None]
    outputs: list[Result]
    """The one result, at the same address after every replay; on a CPU, where a replay is a run, a new one each."""


class MicroBatches:
    """Runs the passes of one trial. Graphs are kept from step to step, unless parameters move between stages."""

    def __init__(self, s: Settings, device: torch.device):
        self.device = device
        self.is_capturing = s.capture_micro_batches
        self.keeps_graphs = not s.parameter_offload  # parameters that come back have other addresses
        self._is_worth_it = self.keeps_graphs and s.total_training_steps >= WORTH_CAPTURING
        self._covers_edges = s.micro_batch_coverage == "edges"
        self._pool: device_ops.GraphPool | None = None
        self._captured: dict[Hashable, _Captured] = {}

    def captures(self, count: int, size: int) -> bool:
        """Whether a pass over `count` rows in micro-batches of `size` is replayed from a graph: where that is often
        enough, within the pass or from step to step."""
        return self.is_capturing and (count // size >= WORTH_CAPTURING or (size <= count and self._is_worth_it))

    def run(
        self, name: Hashable, function: Callable[..., Result], tensors: Sequence[torch.Tensor], size: int
    ) -> list[Result]:
        """function(*rows) of every `size` rows of `tensors` [N, ...], in order; the last micro-batch may be smaller.

        `name` tells passes apart that do something else with tensors of the same shapes. `function` must not look at
        values on the host. A micro-batch that coverage leaves out gives a copy of the result before it.
        """
        count = tensors[0].shape[0]
        parts = list(zip(*(t.split(size) for t in tensors), strict=True))
        captured = self._capture(name, function, parts[0]) if self.captures(count, size) else None
        results: list[Result] = []
        for index, part in enumerate(parts):
            if self._covers_edges and 0 < index < count // size - 1:
                results.append(_map(torch.clone, results[-1]))
            elif captured is not None and part[0].shape[0] == size:
                results.append(_replay(captured, part))
            else:
                results.append(self.call(name, function, part, is_first=index == 0))
        if not self.keeps_graphs:
            del captured
            self.release()
        return results

    def call(
        self, name: Hashable, function: Callable[..., Result], part: tuple[torch.Tensor, ...], *, is_first: bool
    ) -> Result:
        """One micro-batch as it is. A simulation steps in here: `is_first` may make other allocations than the rest."""
        return function(*part)

    def release(self) -> None:
        """Drop the graphs and return their memory to the driver; the allocator keeps it apart until it is asked."""
        if self._captured:
            self._captured.clear()
            self._pool = None
            device_ops.empty_cache(self.device)

    def _capture(self, name: Hashable, function: Callable[..., Result], part: tuple[torch.Tensor, ...]) -> _Captured:
        key = (name, *(tuple(t.shape) for t in part))
        if key not in self._captured:
            if torch.is_grad_enabled():  # an update; scoring alone has no use for what a backward pass needs
                device_ops.prepare_backward_capture(self.device)
            if self._pool is None:
                self._pool = device_ops.GraphPool(self.device)
            inputs = tuple(t.clone() for t in part)
            outputs: list[Result] = []

            def once() -> None:
                outputs[:] = [function(*inputs)]

            replay = self._pool.capture(once)
            self._captured[key] = _Captured(inputs, replay, outputs)
        return self._captured[key]


def _replay(captured: _Captured, part: tuple[torch.Tensor, ...]) -> Result:
    for mine, its in zip(captured.inputs, part, strict=True):
        mine.copy_(its)
    captured.replay()
    return _map(torch.clone, captured.outputs[0])  # the next replay writes over them


def _map(function: Callable[[torch.Tensor], torch.Tensor], result: Result) -> Result:
    if result is None:
        return None
    return tuple(map(function, result)) if isinstance(result, tuple) else function(result)
