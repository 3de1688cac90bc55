"""Where a dry run steps in for the trial program: the functions of `runner.program.device`, and what torch would decide
by the device of a tensor. Everything else is the program's own code.
"""

import contextlib
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from unittest.mock import patch

import torch
from peft.tuners.tuners_utils import BaseTunerLayer

from ..runner import bnb
from ..runner.program import device as device_ops
from ..runner.program import models
from ..runner.program.engines import cuda_graph
from ..runner.program.micro_batches import MicroBatches
from .attention import Attention
from .bnb import Bitsandbytes
from .profile import GpuProfile
from .repeats import Repeats
from .tape import Tape

CAPTURE_STREAM = "capture"


def _cast_adapter(layer: BaseTunerLayer, adapter_name: str, device: object = None) -> None:
    """Adapters take the base layer's dtype, as peft does it; it would skip tensors on the meta device."""
    base = layer.get_base_layer()
    dtype = getattr(base, "compute_dtype", base.weight.dtype)
    for name in layer.adapter_layer_names + layer.other_param_names:
        held = getattr(layer, name, None)
        if isinstance(held, torch.nn.ModuleDict | torch.nn.ParameterDict) and adapter_name in held:
            held[adapter_name] = held[adapter_name].to(dtype=dtype)


class GraphPool:
    """Captures by running the function once: a capture allocates what a run does, a replay allocates nothing."""

    def __init__(self, tape: Tape, seams: "Seams"):
        self._tape, self._seams = tape, seams
        self._pool = next(seams.pools)
        self._alive = 0

    def capture(self, function: Callable[[], None]) -> "_Graph":
        self._seams.capture_stream()
        self._seams.graph_made()
        before = self._seams.operations
        with self._tape.at(self._pool, CAPTURE_STREAM):
            function()
        operations = self._seams.operations - before
        self._seams.graph_instantiated(operations)
        self._alive += 1
        graph = _Graph()
        weakref.finalize(graph, self._graph_gone, operations)
        return graph

    def _graph_gone(self, operations: int) -> None:
        self._alive -= 1
        if self._alive == 0:
            self._tape.mark("release_pool", self._pool)
        self._seams.graph_gone(operations)


class _Graph:
    """A replay: the same kernels on the same addresses."""

    def __call__(self) -> None:
        pass


class Seams:
    """Replacements that share the tape. `applied()` puts them in place."""

    def __init__(self, tape: Tape, profile: GpuProfile, *, copy_repeats: bool = True):
        self._tape, self._profile = tape, profile
        self.repeats = Repeats(tape, enabled=copy_repeats)
        self.attention = Attention(profile)
        self.bitsandbytes = Bitsandbytes(tape, profile)
        self.pools = iter(range(1, 1 << 30))
        self._has_stream = self._has_backward_stream = False
        self._graphs: Counter[int] = Counter()  # live ones by their operations
        self._most_graphs: Counter[int] = Counter()
        self._generator_state: list[int] = []

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        functional = torch.nn.functional
        generator, engine = torch.Generator, torch.autograd.graph._engine_run_backward

        def run_backward(*args, **kwargs):
            with self._tape.backward():
                return engine(*args, **kwargs)

        tensor = torch.tensor

        def from_values(*args, **kwargs):
            # torch makes it below the dispatcher when the device is meta; on a GPU it is one allocation too.
            made = tensor(*args, **kwargs)
            self._tape.see(made, "aten::tensor")
            return made

        def rms_norm(x, normalized_shape, weight=None, eps=None):
            return torch.ops.aten._fused_rms_norm(x, normalized_shape, weight, eps)[0]

        skeleton = models._skeleton

        def on_host(*args, **kwargs):
            # The program's own meta tensors, which real ones replace: here both are on the meta device.
            with self._tape.on_host():
                return skeleton(*args, **kwargs)

        replaced = [
            (bnb, "library", lambda setting: self.bitsandbytes),
            (models, "get_peft_model", self.bitsandbytes.attach),
            (models, "_skeleton", on_host),
            (BaseTunerLayer, "_move_adapter_to_device_of_base_layer", _cast_adapter),
            (MicroBatches, "call", self._micro_batch()),
            (cuda_graph._Wave, "_prefill", self._prefill(cuda_graph._Wave._prefill)),
            (cuda_graph._Wave, "_step", self._decode_step(cuda_graph._Wave._step)),
            (device_ops, "empty_cache", lambda device: self._tape.mark("empty_cache")),
            (device_ops, "synchronize", lambda device: None),
            (device_ops, "host_tokens", self._host_tokens),
            (device_ops, "host_buffer", self._host_buffer),
            (device_ops, "host_copy", self._host_buffer),
            (device_ops, "to_device", lambda host, device: torch.empty_like(host)),
            (device_ops, "device_total_bytes", lambda device: self._profile.device_total_bytes),
            (device_ops, "GraphPool", lambda device: GraphPool(self._tape, self)),
            (device_ops, "prepare_backward_capture", lambda device: self._prepare_backward_capture()),
            (functional, "scaled_dot_product_attention", self.attention),
            (functional, "rms_norm", rms_norm),
            (torch, "tensor", from_values),
            # Random numbers are never drawn: any generator will do, and meta has none.
            (torch, "Generator", lambda device=None: generator()),
            (torch.nn.utils.clip_grad, "_device_has_foreach_support", lambda device: True),
            (torch.autograd, "_engine_run_backward", run_backward),
            (torch.autograd.graph, "_engine_run_backward", run_backward),
        ]
        with contextlib.ExitStack() as stack:
            for owner, name, replacement in replaced:
                stack.enter_context(patch.object(owner, name, replacement))
            yield

    @property
    def operations(self) -> int:
        """So far, those of copied parts included."""
        return self._tape.operations + self.repeats.operations

    def capture_stream(self) -> None:
        """Once per process: what `device_ops.capture_stream` does on its new stream."""
        if self._has_stream:
            return
        self._has_stream = True
        self._tape.mark("driver", self._profile.driver_bytes["capture"], "capture")
        with self._tape.at(None, CAPTURE_STREAM):
            one = torch.zeros(16, 16, device="meta")
            torch.mm(one, one)

    def _prepare_backward_capture(self) -> None:
        """Once per process: what `device_ops.prepare_backward_capture` does on the capture stream."""
        if self._has_backward_stream:
            return
        self._has_backward_stream = True
        self.capture_stream()
        with self._tape.at(None, CAPTURE_STREAM), torch.enable_grad():
            one = torch.zeros(16, 16, device="meta", requires_grad=True)
            torch.mm(one, one).sum().backward()

    def graph_made(self) -> None:
        """The first live graph gives the random generator a seed and an offset, from the capture stream's blocks."""
        if self._graphs.total() == 0:
            with self._tape.at(None, CAPTURE_STREAM):
                self._generator_state = [self._tape.alloc(8, "graph_generator_state") for _ in range(2)]

    def graph_instantiated(self, operations: int) -> None:
        """The driver keeps the nodes of a graph, and after its end their memory for the next graph of the same size."""
        self._graphs[operations] += 1
        if self._graphs[operations] > self._most_graphs[operations]:
            self._most_graphs[operations] += 1
            self._tape.mark("driver", operations * self._profile.driver_bytes["graph_operation"], "graph")

    def graph_gone(self, operations: int) -> None:
        self._graphs[operations] -= 1
        if self._graphs.total() == 0:
            for key in self._generator_state:
                self._tape.free(key)

    def _micro_batch(self) -> Callable:
        """One micro-batch of a pass. The first of an update makes the gradients: it is never copied."""

        def run(passes, name, function, part, *, is_first):
            if is_first and torch.is_grad_enabled():
                return function(*part)
            shapes = tuple(tuple(t.shape) for t in part)
            return self.repeats.call(("micro-batch", name, shapes), lambda: function(*part))

        return run

    def _decode_step(self, function: Callable) -> Callable:
        """Runs under capture only. A later pool of the same trial captures the same steps."""

        def run(wave, length):
            self.repeats.call(("decode", length), lambda: function(wave, length), trusted=True)

        return run

    def _prefill(self, function: Callable) -> Callable:
        def run(wave, ids, keep):
            self.repeats.call(("prefill", ids.shape), lambda: function(wave, ids, keep))

        return run

    def _host_tokens(self, ids: torch.Tensor) -> list[list[int]]:
        """Zeros in place of values. A copy to the host is packed on the device first if it has gaps."""
        if not ids.is_contiguous():
            self._tape.temporary("packed for the host", ids.numel() * ids.element_size())
        return [[0] * ids.shape[1] for _ in range(ids.shape[0])]

    def _host_buffer(self, like: torch.Tensor) -> torch.Tensor:
        with self._tape.on_host():
            return torch.empty_like(like)
