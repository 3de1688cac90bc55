"""What touches the device or the host outside tensor arithmetic. A simulation replaces these functions and no others.

Callers write `device_ops.empty_cache(...)` (module attribute, looked up at the call), so that replacing works.
"""

from collections.abc import Callable

import torch


def empty_cache(device: torch.device) -> None:
    """Return cached, wholly free segments to the driver. Nothing to do on a CPU."""
    if device.type == "cuda":
        torch.cuda.empty_cache()


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def host_tokens(ids: torch.Tensor) -> list[list[int]]:
    """Token ids [sequences, positions] as Python integers: the one place where values reach the host."""
    return ids.tolist()


def host_buffer(like: torch.Tensor) -> torch.Tensor:
    """An uninitialised host tensor of the same shape and dtype, pinned where `like` lives on a GPU."""
    return torch.empty(like.shape, dtype=like.dtype, device="cpu", pin_memory=like.device.type == "cuda")


def to_device(host: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A fresh device copy of `host`. On a CPU a copy too, so that offloading moves bytes there as well."""
    if device.type == "cpu":
        return host.clone()
    return host.to(device, non_blocking=True)


def device_total_bytes(device: torch.device) -> int | None:
    """Total memory of the device; None on a CPU, where a trial has no capacity of its own."""
    return torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else None


class GraphPool:
    """Captures functions as CUDA graphs that share one private memory pool; on a CPU the functions run as they are.

    Sharing is sound because graphs are replayed one after another and keep nothing between replays: what a step
    leaves behind lies in buffers allocated outside of capture.
    """

    def __init__(self, device: torch.device):
        self.device = device
        self.captures = 0
        self._handle = None
        if device.type == "cuda":
            self._stream = torch.cuda.Stream(device)
            # The first cuBLAS call on a stream allocates that stream's workspace. Inside a capture the workspace would
            # land in the graphs' private pool and outlive the graphs; here it is an ordinary allocation.
            with torch.cuda.stream(self._stream):
                one = torch.zeros(16, 16, device=device)
                torch.mm(one, one)
            torch.cuda.current_stream(device).wait_stream(self._stream)

    def capture(self, function: Callable[[], None]) -> Callable[[], None]:
        """A callable that replays `function`, whose every tensor must keep its address."""
        if self.device.type != "cuda":
            return function
        if self._handle is None:
            self._handle = torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        self._stream.wait_stream(torch.cuda.current_stream(self.device))
        # Not `torch.cuda.graph(...)`: that empties the allocator's cache before each capture, which would change what
        # the trial measures. Relaxed mode: lazily loaded kernels may allocate while the capture runs.
        with torch.cuda.stream(self._stream):
            graph.capture_begin(pool=self._handle, capture_error_mode="relaxed")
            try:
                function()
            finally:
                graph.capture_end()
        torch.cuda.current_stream(self.device).wait_stream(self._stream)
        self.captures += 1
        return graph.replay
