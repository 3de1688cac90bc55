"""A thin decode step over the weights of transformers' decoder layers: one token for each of W sequences.

Same arithmetic as the layers' own forward for a single position, in a third of the kernels: projections that share an
input write side by side into one buffer, adapters are added in place by two small products, residuals are added
inside the projection's product, queries of one key/value head attend together (so keys and values are never
repeated), and rotary embedding treats queries and keys at once. Knows qwen2, qwen3, llama, phi3 and granite.

Everything here has static shapes and addresses and never reads a value on the host, so a step can be captured.
"""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from ..models import LanguageModel, is_lora, lora_weights
from .kv_pool import KVPool


class Projection:
    """Linear layers that share one input, with their LoRA adapters. Output [W, sum of outs], in the layers' order.

    The adapters' matrices are copies, cast to the base's dtype with the scale folded in: A stacked [k * r, in], B
    block-diagonal [sum of outs, k * r]. `refresh` copies again after an update, to the same addresses.
    """

    def __init__(self, *layers: nn.Module):
        self.layers = layers
        self.bases = [getattr(layer, "base_layer", layer) for layer in layers]
        self.adapted = [layer for layer in layers if is_lora(layer)]
        self.width = sum(base.out_features for base in self.bases)
        # nf4 layers keep packed weights: they are called, plain ones are multiplied in place.
        self.is_plain = all(type(base) is nn.Linear for base in self.bases)
        self.a: torch.Tensor | None = None
        self.b: torch.Tensor | None = None
        if self.adapted:
            rank, dtype = sum(lora_weights(m)[0].shape[0] for m in self.adapted), self._dtype()
            device = lora_weights(self.adapted[0])[0].device
            self.a = torch.zeros(rank, self.bases[0].in_features, dtype=dtype, device=device)
            self.b = torch.zeros(self.width, rank, dtype=dtype, device=device)
            self.refresh()

    def _dtype(self) -> torch.dtype:
        return self.bases[0].weight.dtype if self.is_plain else self.bases[0].compute_dtype

    def refresh(self) -> None:
        if not self.adapted:
            return
        out = rank = 0
        for layer, base in zip(self.layers, self.bases, strict=True):
            if is_lora(layer):
                a, b, scale = lora_weights(layer)
                self.a[rank : rank + a.shape[0]].copy_(a)
                torch.mul(b, scale, out=self.b[out : out + b.shape[0], rank : rank + a.shape[0]])
                rank += a.shape[0]
            out += base.out_features

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if len(self.bases) == 1:
            y = self.bases[0](x)
        else:
            y, column = x.new_empty(x.shape[0], self.width), 0
            for base in self.bases:
                part = y[:, column : column + base.out_features]
                if not self.is_plain:
                    part.copy_(base(x))
                elif base.bias is None:
                    torch.mm(x, base.weight.t(), out=part)
                else:
                    torch.addmm(base.bias, x, base.weight.t(), out=part)
                column += base.out_features
        return y if self.a is None else y.addmm_(x @ self.a.t(), self.b.t())

    def add_to(self, residual: torch.Tensor, x: torch.Tensor, factor: float) -> None:
        """residual += factor * projection(x), for a single layer."""
        (base,) = self.bases
        if self.is_plain and base.bias is None:
            residual.addmm_(x, base.weight.t(), alpha=factor)
        else:
            residual.add_(base(x), alpha=factor)
        if self.a is not None:
            residual.addmm_(x @ self.a.t(), self.b.t(), alpha=factor)


class _Layer:
    """The parts of one transformers decoder layer that a decode step needs."""

    def __init__(self, layer: nn.Module):
        attention, mlp = layer.self_attn, layer.mlp
        self.norm_1, self.norm_2 = layer.input_layernorm, layer.post_attention_layernorm
        if hasattr(attention, "qkv_proj"):  # phi3
            self.qkv, self.gate_up = Projection(attention.qkv_proj), Projection(mlp.gate_up_proj)
        else:
            self.qkv = Projection(attention.q_proj, attention.k_proj, attention.v_proj)
            self.gate_up = Projection(mlp.gate_proj, mlp.up_proj)
        self.out, self.down = Projection(attention.o_proj), Projection(mlp.down_proj)
        self.q_norm = getattr(attention, "q_norm", None)  # qwen3
        self.k_norm = getattr(attention, "k_norm", None)
        self.activation = getattr(mlp, "act_fn", None) or mlp.activation_fn
        self.attention_scale = attention.scaling
        self.residual_factor = getattr(layer, "residual_multiplier", 1.0)  # granite


def _norm(x: torch.Tensor, norm: nn.Module) -> torch.Tensor:
    return F.rms_norm(x, (x.shape[-1],), norm.weight, norm.variance_epsilon)


class Decoder:
    """One decode step for W sequences over `pool`. Build it once per pool; `refresh` after every change of weights."""

    def __init__(self, model: LanguageModel, pool: KVPool):
        config = model.config
        self.model, self.pool = model, pool
        self.heads, self.groups = config.num_attention_heads, config.num_key_value_heads
        self.head_dim = pool.keys[0].shape[-1]
        self.layers = [_Layer(layer) for layer in model.trunk.layers]
        self.embedding_factor = getattr(config, "embedding_multiplier", 1.0)  # granite
        self._make_rotary_tables()

    def refresh(self) -> None:
        for layer in self.layers:
            for projection in (layer.qkv, layer.gate_up, layer.out, layer.down):
                projection.refresh()

    def _make_rotary_tables(self) -> None:
        """cos and signed sin [L, D] in the model's dtype and the index that swaps a rotated half for the other.

        rotate_half(x) * sin = x[swap] * signed sin. Where only part of a head is rotated (phi3), the rest has cos 1,
        sin 0 and swaps with itself.
        """
        weight = self.model.trunk.embed_tokens.weight
        positions = torch.arange(self.pool.length, device=weight.device)
        cos, sin = self.model.trunk.rotary_emb(weight[:1], positions[None])
        rotated, rest = cos.shape[-1], self.head_dim - cos.shape[-1]
        half = rotated // 2
        sin = torch.cat([-sin[0, :, :half], sin[0, :, half:]], dim=-1)
        self.cos, self.sin = F.pad(cos[0], (0, rest), value=1.0), F.pad(sin, (0, rest), value=0.0)
        order = [*range(half, rotated), *range(half), *range(rotated, self.head_dim)]
        self.swap = torch.tensor(order, device=weight.device)

    def step(self, tokens: torch.Tensor, slot: torch.Tensor, positions: torch.Tensor, bias: torch.Tensor):
        """float32 logits [W, V] after `tokens` [W], which stand at pool position `slot` [1] and have rotary
        `positions` [W]. `bias` [W * G, 1, Lb] is 0 at visible and -inf at hidden pool positions; Lb is the bucket."""
        x = self.model.trunk.embed_tokens(tokens)
        if self.embedding_factor != 1.0:
            x = x * self.embedding_factor
        cos, sin = self.cos.index_select(0, positions)[:, None], self.sin.index_select(0, positions)[:, None]
        for index, layer in enumerate(self.layers):
            mixed = self._attend(index, layer, _norm(x, layer.norm_1), slot, cos, sin, bias)
            layer.out.add_to(x, mixed, layer.residual_factor)
            gate, up = layer.gate_up(_norm(x, layer.norm_2)).chunk(2, dim=-1)
            layer.down.add_to(x, layer.activation(gate).mul_(up), layer.residual_factor)
        return self.model.logits(_norm(x, self.model.trunk.norm))

    def _attend(self, index: int, layer: _Layer, x: torch.Tensor, slot: torch.Tensor, cos: torch.Tensor,
                sin: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:  # fmt: skip
        """Attention output [W, heads * D] before its projection; writes this position's key and value."""
        count, heads, groups, width = x.shape[0], self.heads, self.groups, self.head_dim
        qkv = layer.qkv(x).view(count, heads + 2 * groups, width)
        qk, value = qkv[:, : heads + groups], qkv[:, heads + groups :]
        if layer.q_norm is not None:
            qk = torch.cat([_norm(qk[:, :heads], layer.q_norm), _norm(qk[:, heads:], layer.k_norm)], dim=1)
        qk = torch.addcmul(qk.index_select(-1, self.swap).mul_(sin), qk, cos)
        keys, values = self.pool.keys[index], self.pool.values[index]
        keys.index_copy_(2, slot, qk[:, heads:, None])
        values.index_copy_(2, slot, value[:, :, None])
        length = bias.shape[-1]
        # The queries of one key/value head are the rows of one small product over that head's keys, read once.
        query = qk[:, :heads].reshape(count * groups, heads // groups, width)
        keys = keys.view(count * groups, -1, width)[:, :length]
        values = values.view(count * groups, -1, width)[:, :length]
        scores = torch.baddbmm(bias, query, keys.transpose(1, 2), alpha=layer.attention_scale)
        probabilities = torch.softmax(scores, dim=-1)
        return torch.bmm(probabilities, values).view(count, heads * width)
