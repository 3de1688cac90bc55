"""Rollout by transformers' own `generate` with its growing cache: what most people run first."""

import torch
from transformers import GenerationConfig

from ....schema.settings import Settings
from ..models import LanguageModel
from ..prompts import PAD_ID
from ..sequences import Prompts


class HfGenerate:
    """Waves of at most max_num_seqs sequences. The cache is generate's own and dies with each wave."""

    pool_tokens = None  # it keeps no pool

    def __init__(self, model: LanguageModel, s: Settings, device: torch.device, sample: bool = True):
        self.model, self.s = model, s
        # Forced lengths: models are built without an end token, so only max_new_tokens stops. top_k=0 and top_p=1
        # sample from the whole distribution, whose log-probabilities the update then uses.
        sampling = dict(temperature=1.0, top_k=0, top_p=1.0) if sample else {}
        self._config = GenerationConfig(
            max_new_tokens=s.max_response_length, do_sample=sample, pad_token_id=PAD_ID, use_cache=True, **sampling
        )

    @torch.no_grad()
    def rollout(self, prompts: Prompts) -> torch.Tensor:
        """Full sequences [N, P + R] of token ids."""
        self.model.causal.eval()
        wave = self.s.max_num_seqs
        parts = [
            self.model.causal.generate(
                input_ids=ids, attention_mask=keep.long() if self.s.padding == "mask" else torch.ones_like(ids),
                generation_config=self._config,
            )
            for ids, keep in zip(prompts.ids.split(wave), prompts.keep.split(wave), strict=True)
        ]  # fmt: skip
        return torch.cat(parts)
