"""Linear layers whose frozen weight is stored in 4 bits: NF4 of QLoRA (Dettmers et al., arXiv 2305.14314).

As transformers' BitsAndBytesConfig with bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True and
bnb_4bit_compute_dtype of the model's dtype: blocks of 64 values share a scale, the scales are stored in 8 bits in
blocks of 256, and a product takes the weight back to the compute dtype, as a whole or inside its kernel, as
bitsandbytes chooses by shape. Double quantisation is on because the QLoRA recipe is run with it: 4.13 instead of 4.5
bits a weight. Quantised are the linear layers of the decoder; embedding, head and norms are not.
"""

import torch
from torch import nn

from .. import bnb

SETTING = "quantization=nf4"
BLOCK = 64  # values per scale


def replace_linears(trunk: nn.Module, dtype: torch.dtype) -> None:
    """Put a 4-bit layer in the place of each linear layer below `trunk`, all on the meta device still.

    The new layer keeps the old one's parameters; `packed` makes what stands for the weight once it has values.
    Raises EnvironmentLacks where bitsandbytes is not installed.
    """
    linear = bnb.library(SETTING).nn.Linear4bit
    for parent in list(trunk.modules()):
        for name, child in parent.named_children():
            if type(child) is nn.Linear:
                new = linear(child.in_features, child.out_features, bias=child.bias is not None, compute_dtype=dtype,
                             compress_statistics=True, quant_type="nf4", device="meta")  # fmt: skip
                new.weight, new.bias = child.weight, child.bias
                # On CPUs with AVX512-BF16 a layer in eval mode would pack its weight anew, compute in bfloat16 whatever
                # the compute dtype, and give no gradient from then on.
                new.support_avx512bf16_for_cpu = False
                setattr(parent, name, new)


def is_quantized(module: nn.Module) -> bool:
    return hasattr(module, "quant_state")


def packed(module: nn.Module, weight: torch.Tensor) -> nn.Parameter:
    """The parameter [out * in / 2, 1] that stores `weight` [out, in] in 4 bits, for `module` of `replace_linears`."""
    parameter = bnb.library(SETTING).nn.Params4bit(
        weight, requires_grad=False, blocksize=BLOCK, compress_statistics=True, quant_type="nf4", module=module
    )
    return parameter.to(weight.device)  # this quantises


def scales(module: nn.Module) -> list[torch.Tensor]:
    """What lies beside the packed weight: scales [out * in / 64] in 8 bits, their own scales, their offset; two tables
    of values."""
    state = module.quant_state
    return [state.absmax, state.state2.absmax, state.offset, state.code, state.state2.code]


def unpacked(module: nn.Module) -> torch.Tensor:
    """A new tensor of the weight [out, in] in the dtype it was given in."""
    return bnb.library(SETTING).functional.dequantize_4bit(module.weight.data, module.quant_state)


def store(module: nn.Module, weight: torch.Tensor) -> None:
    """Quantise `weight` [out, in] into the tensors of `module`, which keep their addresses."""
    new, state = bnb.library(SETTING).functional.quantize_4bit(
        weight, blocksize=BLOCK, compress_statistics=True, quant_type="nf4"
    )
    fresh = [new, state.absmax, state.state2.absmax, state.offset]
    for old, value in zip([module.weight.data, *scales(module)], fresh, strict=False):  # the tables never change
        old.copy_(value)


def logical_size(module: nn.Module) -> int:
    """Weights that the packed ones stand for."""
    return module.in_features * module.out_features
