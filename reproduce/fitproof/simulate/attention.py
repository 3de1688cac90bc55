"""Scaled dot product attention as a CUDA build of torch would run it: which backend, and what it allocates.

A build without CUDA chooses among other backends, so the choice of `sdp_utils.cpp` is made here from the profile, and
the backend's own operation is called.
"""

import torch

from .profile import GpuProfile

_aten = torch.ops.aten
_HALF = (torch.bfloat16, torch.float16)


class Attention:
    """Stands in for torch.nn.functional.scaled_dot_product_attention; `used` counts the backends."""

    def __init__(self, profile: GpuProfile):
        self._profile = profile
        self.used: dict[str, int] = {}

    def __call__(self, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        kind = self.choose(query, key, attn_mask, is_causal)
        self.used[kind] = self.used.get(kind, 0) + 1
        needs_grad = torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad)
        if kind == "flash":
            run = _aten._scaled_dot_product_flash_attention
            return run(query, key, value, dropout_p, is_causal, False, scale=scale)[0]
        if kind == "math":
            return _math(query, key, value, attn_mask, is_causal, scale, enable_gqa)
        bias = _additive(attn_mask, query.dtype)
        if kind == "cudnn":
            run = _aten._scaled_dot_product_cudnn_attention
            return run(query, key, value, bias, needs_grad, dropout_p, is_causal, False, scale=scale)[0]
        if bias is not None:
            bias = _aligned(bias).expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
        run = _aten._scaled_dot_product_efficient_attention
        return run(query, key, value, bias, needs_grad, dropout_p, is_causal, scale=scale)[0]

    def choose(self, query, key, mask, is_causal: bool) -> str:
        """cudnn, flash, efficient or math, in PyTorch's order of preference for this card."""
        sm, width = self._profile.compute_capability, query.shape[-1]
        is_half, aligned = query.dtype in _HALF, width % 8 == 0
        if self._profile.prefers_cudnn_attention and is_half and width <= 128 and aligned and key.shape[2] > 1:
            return "cudnn"
        square = query.shape[2] == key.shape[2]
        if is_half and sm >= 80 and mask is None and width <= 256 and (square or not is_causal):
            return "flash"
        if aligned and query.shape[1] == key.shape[1]:
            return "efficient"
        return "math"


def _additive(mask: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor | None:
    """A bool mask as a bias of 0 and -inf (`convert_boolean_attn_mask`)."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.where(mask, 0.0, torch.scalar_tensor(float("-inf"), dtype=dtype, device=mask.device))


def _aligned(bias: torch.Tensor) -> torch.Tensor:
    """Rows of the bias padded to a multiple of 8 (`pad_bias`), seen without the padding."""
    width = bias.shape[-1]
    return bias if width % 8 == 0 else torch.nn.functional.pad(bias, (0, 8 - width % 8))[..., :width]


def _math(query, key, value, mask, is_causal: bool, scale, enable_gqa: bool) -> torch.Tensor:
    """`_scaled_dot_product_attention_math`: half precision is computed in float32."""
    factor = (scale if scale is not None else query.shape[-1] ** -0.5) ** 0.5
    dtype = query.dtype
    if dtype in _HALF:
        query, key, value = query.float(), key.float(), value.float()
    query = query * factor
    if is_causal:
        shape = (query.shape[2], key.shape[2])
        mask = torch.ones(shape, dtype=torch.bool, device=query.device).tril()
    bias = _additive(mask, query.dtype)
    if enable_gqa and key.shape[1] != query.shape[1]:
        repeats = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
    scores = torch.matmul(query, key.transpose(-2, -1) * factor)
    if bias is not None:
        scores.add_(bias)
    return torch.matmul(torch._safe_softmax(scores, -1), value).to(dtype)
