"""What touches the device or the host outside tensor arithmetic. A simulation replaces these functions and no others.

Callers write `device_ops.empty_cache(...)` (module attribute, looked up at the call), so that replacing works.
"""

import functools
from collections.abc import Callable

import torch


def empty_cache(device: torch.device) -> None:
    """Return cached, wholly free segments to the driver. Nothing to do on a CPU.

    Waits for the device first: expandable segments are unmapped after waiting for the stream that allocated them, but
    a graph captured on one stream may still be running on another.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
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


def host_copy(tensor: torch.Tensor) -> torch.Tensor:
    """`tensor` in contiguous host memory; itself where it is so already. Allocates nothing on the device."""
    return tensor.detach().to("cpu").contiguous()


def random_states() -> dict[str, torch.Tensor]:
    """States of torch's default generators: 'cpu', 'cuda:0', ..."""
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_initialized():
        states |= {f"cuda:{n}": torch.cuda.get_rng_state(n) for n in range(torch.cuda.device_count())}
    return states


def set_random_states(states: dict[str, torch.Tensor]) -> None:
    for name, state in states.items():
        if name == "cpu":
            torch.set_rng_state(state)
        else:
            torch.cuda.set_rng_state(state, torch.device(name))


def device_total_bytes(device: torch.device) -> int | None:
    """Total memory of the device; None on a CPU, where a trial has no capacity of its own."""
    return torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else None


def free_bytes(device: torch.device) -> int | None:
    """Memory of the device that nobody holds, by its driver; None where no driver counts it."""
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else None


@functools.cache
def capture_stream(device: torch.device) -> "torch.cuda.Stream":
    """The one stream of this process that graphs are captured on.

    The first cuBLAS call on a stream allocates a workspace for it that is never freed: with a stream per capture they
    would pile up. Made here, outside of any capture, the workspace is an ordinary allocation; inside, it would land in
    the graphs' private pool and outlive them.
    """
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        one = torch.zeros(16, 16, device=device)
        torch.mm(one, one)
    torch.cuda.current_stream(device).wait_stream(stream)
    return stream


@functools.cache
def prepare_backward_capture(device: torch.device) -> None:
    """Make what autograd's thread needs on the capture stream, outside of any capture; nothing on a CPU.

    That thread has a cuBLAS handle of its own, and a workspace for it per stream: see `capture_stream`.
    """
    if device.type != "cuda":
        return
    stream = capture_stream(device)
    with torch.cuda.stream(stream), torch.enable_grad():
        one = torch.zeros(16, 16, device=device, requires_grad=True)
        torch.mm(one, one).sum().backward()
    torch.cuda.current_stream(device).wait_stream(stream)


class GraphPool:
    """Captures functions as CUDA graphs that share one private memory pool; on a CPU the functions run as they are.

    Sharing is sound because graphs are replayed one after another and keep nothing between replays: what a step
    leaves behind lies in buffers allocated outside of capture.
    """

    def __init__(self, device: torch.device):
        self.device = device
        self.captures = 0
        self._handle = None

    def capture(self, function: Callable[[], None]) -> Callable[[], None]:
        """A callable that replays `function`, whose every tensor must keep its address."""
        if self.device.type != "cuda":
            return function
        if self._handle is None:
            self._handle = torch.cuda.graph_pool_handle()
        stream, graph = capture_stream(self.device), torch.cuda.CUDAGraph()
        stream.wait_stream(torch.cuda.current_stream(self.device))
        # Not `torch.cuda.graph(...)`: that empties the allocator's cache before each capture, which would change what
        # the trial measures. Relaxed mode: lazily loaded kernels may allocate while the capture runs.
        with torch.cuda.stream(stream):
            graph.capture_begin(pool=self._handle, capture_error_mode="relaxed")
            try:
                function()
            finally:
                graph.capture_end()
        torch.cuda.current_stream(self.device).wait_stream(stream)
        self.captures += 1
        return graph.replay
