"""Padded batches: left-padded prompts followed by full-length responses, and the masks that go with them."""

from dataclasses import dataclass

import torch

from ...schema.settings import Settings
from . import device as device_ops
from .prompts import PAD_ID, Task, make_tasks


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompts:
    """One row per sequence to roll out (each prompt rollout_n times, neighbours)."""

    ids: torch.Tensor
    """[N, P] token ids, left-padded."""
    keep: torch.Tensor
    """[N, P] True where a real token stands."""
    tasks: tuple[Task, ...]
    """The N tasks, on the host, for the verifier."""


def make_prompts(s: Settings, vocab_size: int, seed: int, step: int, device: torch.device) -> Prompts:
    """The prompts of `step` (from 1). Shapes depend on the settings only."""
    tasks = make_tasks(s, vocab_size, seed=seed, start=(step - 1) * s.train_batch_size, count=s.train_batch_size)
    rows = [t for t in tasks for _ in range(s.rollout_n)]
    width = s.max_prompt_length
    ids = torch.tensor([[PAD_ID] * (width - len(t.ids)) + list(t.ids) for t in rows], device=device)
    keep = torch.tensor([[False] * (width - len(t.ids)) + [True] * len(t.ids) for t in rows], device=device)
    return Prompts(ids=ids, keep=keep, tasks=tuple(rows))


def unpadded(prompts: Prompts) -> list[list[int]]:
    """The prompts on the host, each at its own length, for engines that batch requests themselves."""
    ids, keep = device_ops.host_tokens(prompts.ids), device_ops.host_tokens(prompts.keep)
    return [[token for token, is_kept in zip(*row, strict=True) if is_kept] for row in zip(ids, keep, strict=True)]


def position_ids(keep: torch.Tensor, length: int) -> torch.Tensor:
    """[B, length] position of each token in its own sequence; padding has position 0. `keep` is [B, P], P <= length."""
    positions = (keep.cumsum(-1) - 1).clamp(min=0)
    if length == keep.shape[1]:
        return positions
    steps = torch.arange(1, length - keep.shape[1] + 1, device=keep.device)
    return torch.cat([positions, positions[:, -1:] + steps], dim=-1)


def attention_mask(s: Settings, keep: torch.Tensor, length: int, dtype: torch.dtype) -> torch.Tensor | None:
    """The ready mask [B, 1, length, length] for transformers, which then makes none of its own.

    bool for sdpa, additive in `dtype` for eager, None for padding=none with sdpa (causal by flag). Padding rows see
    themselves: a row without any key would be NaN in some attention kernels.
    """
    if s.padding == "none" and s.attn_implementation == "sdpa":
        return None
    batch, prompt = keep.shape
    mask = torch.ones(length, length, dtype=torch.bool, device=keep.device).tril().expand(batch, 1, -1, -1).clone()
    mask[..., :prompt].logical_and_(keep[:, None, None, :])
    mask.diagonal(dim1=-2, dim2=-1).fill_(True)
    if s.attn_implementation == "sdpa":
        return mask
    return torch.where(mask, 0.0, torch.finfo(dtype).min).to(dtype)
