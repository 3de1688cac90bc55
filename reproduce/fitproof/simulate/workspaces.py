"""What CUDA kernels allocate below the dispatcher: workspaces that stay, and scratch that lives for one call."""

import math

from .profile import GpuProfile
from .tape import Tape

_MATRIX_PRODUCTS = {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::addmm_", "aten::baddbmm_"}
_FLASH = "aten::_scaled_dot_product_flash_attention"
_ATTENTION = (_FLASH, "aten::_scaled_dot_product_cudnn_attention", "aten::_scaled_dot_product_efficient_attention")
_LOADS = {**dict.fromkeys(_ATTENTION, "attention"), "aten::exponential": "sampling", "aten::exponential_": "sampling"}
_FLASH_BACKWARD = "aten::_scaled_dot_product_flash_attention_backward"
_CUDNN_BACKWARD = "aten::_scaled_dot_product_cudnn_attention_backward"
_EFFICIENT_BACKWARD = "aten::_scaled_dot_product_efficient_attention_backward"


class Workspaces:
    """Called by the tape after every operation. One cuBLAS workspace per handle (one per thread) and stream."""

    def __init__(self, profile: GpuProfile):
        self._profile = profile
        self._workspaces: set[tuple] = set()
        self._loaded: set[str] = set()

    def __call__(self, tape: Tape, func, args: tuple, out: object) -> None:
        name = func._schema.name
        if name in _MATRIX_PRODUCTS:
            where = (tape.in_backward, tape.place[1:])
            if where not in self._workspaces:
                self._workspaces.add(where)
                self._load(tape, "backward" if tape.in_backward else "matmul")
                tape.alloc(self._profile.cublas_workspace_bytes, "cublas_workspace")
            # A product with a bias row goes to cuBLASLt, if its result has no gaps (`isInputCompliesAddmmCudaLt`).
            if (
                name == "aten::addmm"
                and args[0].dim() == 1
                and out.is_contiguous()
                and ("lt", *where) not in (self._workspaces)
            ):
                self._workspaces.add(("lt", *where))
                tape.alloc(self._profile.cublaslt_workspace_bytes, "cublaslt_workspace")
        elif name in _SCRATCH:
            self._load(tape, _LOADS.get(name))
            tape.temporary(f"{name} scratch", *_SCRATCH[name](self._profile, args))

    def _load(self, tape: Tape, what: str | None) -> None:
        """A library's first use takes device memory of its own, once per process."""
        if what is not None and what not in self._loaded:
            self._loaded.add(what)
            tape.mark("driver", self._profile.driver_bytes[what], what)


def _flash(profile: GpuProfile, args: tuple) -> list[int]:
    """Partial results of split keys (`set_params_splitkv`)."""
    query, key = args[0], args[1]
    batch, heads, length, width = query.shape
    block = 256 if width <= 64 else 128 if width <= 128 else 64
    blocks = batch * heads * -(-length // 64)
    splits = _splits(blocks, profile.multiprocessors * 2, -(-key.shape[2] // block))
    if splits == 1:
        return []
    return [splits * batch * heads * length * 4, splits * batch * heads * length * _up(width, 32) * 4]


def _splits(blocks: int, processors: int, key_blocks: int) -> int:
    """`num_splits_heuristic` of flash attention."""
    if blocks >= 0.8 * processors:
        return 1
    efficiency = {}
    for n in range(1, min(128, processors, key_blocks) + 1):
        if n == 1 or -(-key_blocks // n) != -(-key_blocks // (n - 1)):
            waves = blocks * n / processors
            efficiency[n] = waves / math.ceil(waves)
    best = max(efficiency.values())
    return next(n for n, value in sorted(efficiency.items()) if value >= 0.85 * best)


def _flash_backward(profile: GpuProfile, args: tuple) -> list[int]:
    """softmax_d and the float32 accumulator of dq; with grouped queries dk and dv of all query heads."""
    query, key = args[1], args[2]
    batch, heads, length, width = query.shape
    rows = batch * heads * _up(length, 128)
    sizes = [rows * 4, rows * _up(width, 32) * 4]
    if key.shape[1] != heads:
        sizes += [batch * heads * key.shape[2] * width * query.element_size()] * 2
    return sizes


def _cudnn_backward(profile: GpuProfile, args: tuple) -> list[int]:
    """One workspace: a float32 row statistic and a float32 dq, and with grouped queries dk and dv of all query heads.

    cuDNN does not document it; the size is fitted to measured peaks.
    """
    query, key = args[1], args[2]
    batch, heads, length, width = query.shape
    nbytes = batch * heads * length * 4 * (1 + width)
    if key.shape[1] != heads:
        nbytes += 2 * batch * heads * key.shape[2] * width * query.element_size()
    return [nbytes]


def _efficient_backward(profile: GpuProfile, args: tuple) -> list[int]:
    query, key = args[1], args[2]
    batch, heads, length, width = query.shape
    return [batch * heads * length * 4, batch * heads * width * 4 * (_up(length, 64) + 2 * _up(key.shape[2], 64))]


def _embedding_backward(profile: GpuProfile, args: tuple) -> list[int]:
    """Above 3,072 indices they are sorted: keys and values, in and out."""
    count = args[1].numel()
    return [count * 8] * 4 if count > 3072 else []


def _multinomial(profile: GpuProfile, args: tuple) -> list[int]:
    return [args[0].numel() * args[0].element_size()]


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


_SCRATCH = {
    **{name: lambda profile, args: [] for name in _LOADS},
    _FLASH: _flash,
    _FLASH_BACKWARD: _flash_backward,
    _CUDNN_BACKWARD: _cudnn_backward,
    _EFFICIENT_BACKWARD: _efficient_backward,
    "aten::embedding_dense_backward": _embedding_backward,
    "aten::multinomial": _multinomial,
}
