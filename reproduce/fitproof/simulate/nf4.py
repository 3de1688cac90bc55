"""4-bit layers of bitsandbytes 0.50 on the meta device: the tensors that live while a CUDA build of it runs.

bitsandbytes cannot build its parameters on the meta device, runs its kernels below the dispatcher, and need not be
installed for a dry run. What stands here follows its Python source, allocation by allocation:
`functional.quantize_4bit` and `dequantize_4bit`, `autograd._functions.MatMul4Bit`, `backends/cuda/ops.py` for what a
product allocates, and peft's LoRA layer over it. Left out is the scratch of the mean over a layer's scales.
"""

from collections.abc import Callable
from types import SimpleNamespace

import torch
from peft.tuners.lora.layer import LoraLayer
from torch import nn

from .profile import GpuProfile

BLOCK, SCALES_BLOCK = 64, 256  # weights per scale, scales per scale of theirs
KNOWN_CAPABILITIES = (90,)  # cards whose choice of kernels `uses_fused_kernel` has
_ALWAYS_FUSED_ROWS, _MOST_FUSED_ROWS = 4, 1536


def uses_fused_kernel(profile: GpuProfile, dtype: torch.dtype, rows: int, out: int, inner: int) -> bool:
    """Whether a product of [rows, inner] with a packed weight [out, inner] unpacks inside its kernel, or the whole
    weight first. `_gemm_4bit_use_custom_cuda` of backends/cuda/ops.py for compute capability 9.0, 0.50.2."""
    if rows > _MOST_FUSED_ROWS or inner % BLOCK:
        return False
    if rows <= _ALWAYS_FUSED_ROWS:
        return True
    if dtype == torch.float32:
        return rows < 8
    processors, blocks = profile.multiprocessors, -(-out // 64)
    if out * inner < 4 * 2**20:
        if inner * 2 < out:
            return rows <= (512 if blocks * 3 < processors else 320)
        if blocks * 4 <= processors:
            return rows <= 32
        return blocks * 2 <= processors and rows <= 16
    if rows > 512:
        return False
    if rows < 8:
        return not (rows >= 6 and blocks >= 36 and _is_slow_below_8(blocks, processors, out, inner))
    if blocks >= processors * 3:
        return rows <= 64
    if blocks >= processors * 2:
        return rows <= 48
    if blocks >= processors:
        return rows <= 32
    if blocks >= processors // 2:
        return rows <= 16 and not (inner >= out and blocks * 4 < processors * 3)
    return False


def _is_slow_below_8(blocks: int, processors: int, out: int, inner: int) -> bool:
    below_3_4, below_3_5 = blocks * 4 < processors * 3, blocks * 5 < processors * 3
    return below_3_4 and (inner > out or (inner == out and not below_3_5))


class Nf4:
    """What `quantized` takes from bitsandbytes: `nn` and `functional`. `load()` is called at the first kernel."""

    def __init__(self, profile: GpuProfile, load: Callable[[], None]):
        self.profile, self._load = profile, load
        self._has_table = False
        parent = self

        class Params4bit(_Packed):
            nf4 = parent

        class Linear4bit(_Linear4bit):
            nf4 = parent

        self.nn = SimpleNamespace(Linear4bit=Linear4bit, Params4bit=Params4bit)
        self.functional = SimpleNamespace(quantize_4bit=self.quantize, dequantize_4bit=self.dequantize)
        self.lora_layers = {Linear4bit: LoraOverLinear4bit}

    def quantize(self, weight: torch.Tensor, **_: object) -> tuple[torch.Tensor, SimpleNamespace]:
        """(packed [n / 2, 1], state) of a weight [out, in] of n values."""
        self._load()
        device, count = weight.device, weight.numel()
        absmax = torch.empty(-(-count // BLOCK), dtype=torch.float32, device=device)
        packed = torch.empty((count + 1) // 2, 1, dtype=torch.uint8, device=device)
        code = torch.tensor([0.0] * 16, device=device)
        code.div_(code.abs().max())
        offset = absmax.mean()
        difference = absmax - offset
        if not self._has_table:
            self._has_table = True
            self._table = torch.empty(256, device=device)  # one for the whole process, made by the first call
        their_absmax = torch.empty(-(-absmax.numel() // SCALES_BLOCK), dtype=torch.float32, device=device)
        scales = torch.empty_like(difference, dtype=torch.uint8)
        state2 = SimpleNamespace(absmax=their_absmax, code=torch.empty_like(self._table))
        state = SimpleNamespace(
            absmax=scales, code=code, offset=offset, state2=state2, shape=weight.shape, dtype=weight.dtype
        )
        return packed, state

    def dequantize(self, packed: torch.Tensor, state: SimpleNamespace) -> torch.Tensor:
        """The weight [out, in]; its scales in float32 die when it is there."""
        absmax = torch.empty_like(state.absmax, dtype=torch.float32)
        absmax += state.offset
        return torch.empty(state.shape, dtype=state.dtype, device=packed.device)

    def product(self, x: torch.Tensor, state: SimpleNamespace, bias: torch.Tensor | None) -> torch.Tensor:
        """x [..., in] times a packed weight: [..., out]."""
        self._load()
        out, inner = state.shape
        if uses_fused_kernel(self.profile, x.dtype, x.numel() // inner, out, inner):
            x = x.contiguous()
            return torch.empty(*x.shape[:-1], out, dtype=x.dtype, device=x.device)
        in_float32 = torch.empty_like(state.absmax, dtype=torch.float32)
        absmax = in_float32 + state.offset
        weight = torch.empty(state.shape, dtype=x.dtype, device=x.device)
        result = nn.functional.linear(x, weight, bias)
        del absmax, weight  # lived until here
        return result


class _Packed:
    """A parameter that is packed when it is moved to a device."""

    nf4: Nf4

    def __init__(self, weight: torch.Tensor, *, module: nn.Module, **_: object):
        self.weight, self.module = weight, module

    def to(self, _: torch.device) -> nn.Parameter:
        packed, self.module.quant_state = self.nf4.quantize(self.weight)
        return nn.Parameter(packed, requires_grad=False)


class _Linear4bit(nn.Linear):
    nf4: Nf4

    def __init__(self, inner: int, out: int, *, compute_dtype: torch.dtype, **_: object):
        nn.Module.__init__(self)  # its parameters are given to it
        self.in_features, self.out_features, self.compute_dtype = inner, out, compute_dtype
        self.quant_state: SimpleNamespace | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        given = x.dtype
        x = x.to(self.compute_dtype)
        bias = None if self.bias is None else self.bias.to(self.compute_dtype)
        needs_grad = torch.is_grad_enabled() and (x.requires_grad or (bias is not None and bias.requires_grad))
        if needs_grad:
            return _Product.apply(x, self.weight, bias, self.quant_state, self.nf4).to(given)
        return self.nf4.product(x, self.quant_state, bias).to(given)


class _Product(torch.autograd.Function):
    """MatMul4Bit: saves nothing of its input; the backward pass unpacks the weight once more."""

    @staticmethod
    def forward(ctx, x, packed, bias, state, nf4):
        ctx.packed, ctx.state, ctx.nf4 = packed, state, nf4
        return nf4.product(x, state, bias)

    @staticmethod
    def backward(ctx, grad):
        weight = ctx.nf4.dequantize(ctx.packed, ctx.state).to(grad.dtype)
        return torch.matmul(grad, weight), None, None, None, None


class LoraOverLinear4bit(nn.Module, LoraLayer):
    """The forward pass of peft's `lora.bnb.Linear4bit`, which exists only where bitsandbytes does."""

    def __init__(self, base_layer: nn.Module, adapter_name: str, config, r: int, lora_alpha: int, **_: object):
        super().__init__()
        LoraLayer.__init__(self, base_layer)
        self.fan_in_fan_out = False
        self._active_adapter = adapter_name
        self.update_layer(adapter_name, r, lora_alpha=lora_alpha, config=config)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.disable_adapters:
            return self.base_layer(x)
        result = self.base_layer(x)
        result = result.clone()
        for name in self.active_adapters:
            if name in self.lora_A:
                dtype = result.dtype
                x = self._cast_input_dtype(x, self.lora_A[name].weight.dtype)
                output = self.lora_B[name](self.lora_A[name](self.lora_dropout[name](x))) * self.scaling[name]
                output = output.to(dtype)
                result = result + output
        return result
