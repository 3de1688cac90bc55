"""8-bit AdamW of bitsandbytes 0.50 on the meta device: its state, tensor by tensor (`optim/optimizer.py`).

Its kernels allocate nothing. Tensors of fewer than 4,096 elements keep float32 state. Paged states of 100,000 elements
and more lie in managed memory: no block of the caching allocator, but memory of the device once a kernel has touched
it.
"""

from collections.abc import Callable

import torch

LEAST_QUANTISED, LEAST_PAGED = 4096, 100_000  # elements: min_8bit_size; get_state_buffer
BLOCK = 256


class Adam8bit(torch.optim.Optimizer):
    """`managed(like)` gives a buffer of managed memory; None where the optimizer is not paged. `load()` is called at
    the first kernel."""

    def __init__(
        self,
        parameters: list[torch.nn.Parameter],
        *,
        load: Callable[[], None],
        managed: Callable[[torch.Tensor, torch.dtype], torch.Tensor] | None = None,
        **defaults: float,
    ):
        super().__init__(parameters, defaults)
        self._load, self._managed = load, managed
        self._tables: tuple[torch.Tensor, torch.Tensor] | None = None

    @torch.no_grad()
    def init_state(self, group: dict, p: torch.Tensor, *_: int) -> None:
        state = self.state[p]
        state["step"] = 0
        if p.numel() < LEAST_QUANTISED:
            state["state1"], state["state2"] = (self._buffer(p, torch.float32) for _ in range(2))
            return
        if self._tables is None:  # copies of the optimizer's tables in host memory
            self._tables = tuple(torch.empty(256, device=p.device) for _ in range(2))
        for number, table in zip("12", self._tables, strict=True):
            state[f"state{number}"], state[f"qmap{number}"] = self._buffer(p, torch.uint8), table
        for number in "12":
            state[f"absmax{number}"] = torch.zeros(-(-p.numel() // BLOCK), dtype=torch.float32, device=p.device)

    def _buffer(self, p: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        if self._managed is None or p.numel() < LEAST_PAGED:
            return torch.zeros_like(p, dtype=dtype)
        return self._managed(p, dtype)

    @torch.no_grad()
    def step(self) -> None:
        self._load()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if not self.state[p]:
                    self.init_state(group, p)
                p.grad = p.grad.contiguous()
                self.state[p]["step"] += 1
