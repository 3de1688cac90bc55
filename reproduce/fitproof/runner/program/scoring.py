"""Log-probabilities of response tokens, in micro-batches and, on request, in chunks of the vocabulary projection.

The projection to V logits is the usual memory spike: unchunked, [b * R, V] exists in the model's dtype, in float32 and
once more as log-softmax. With `logits_chunk` = c only [c, V] does; under autograd each chunk is checkpointed, so that
the backward pass holds one chunk at a time too instead of all of them.
"""

import torch
from torch.utils.checkpoint import checkpoint

from ...schema.settings import Settings
from .models import LanguageModel
from .sequences import attention_mask, position_ids


def hidden_states(model: LanguageModel, s: Settings, ids: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    """Last hidden states [b, T, H] of sequences [b, T] whose prompts have the padding `keep` [b, P]."""
    length = ids.shape[1]
    mask = attention_mask(s, keep, length, model.head.weight.dtype)
    out = model.trunk(input_ids=ids, attention_mask=mask, position_ids=position_ids(keep, length), use_cache=False)
    return out.last_hidden_state


def response_states(model: LanguageModel, s: Settings, ids: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    """Hidden states [b, R, H] that predict the R response tokens: those one position before each."""
    return hidden_states(model, s, ids, keep)[:, keep.shape[1] - 1 : -1]


def token_logprobs(model: LanguageModel, s: Settings, ids: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    """float32 log-probabilities [b, R] of the response tokens of `ids` [b, T]. Differentiable where grad is on."""
    states = response_states(model, s, ids, keep)
    labels = ids[:, keep.shape[1] :]
    flat = project_logprobs(model, states.reshape(-1, states.shape[-1]), labels.reshape(-1), s.logits_chunk)
    return flat.view(labels.shape)


def project_logprobs(model: LanguageModel, states: torch.Tensor, labels: torch.Tensor, chunk: int) -> torch.Tensor:
    """float32 log-probabilities [n] of `labels` [n] given hidden states [n, H]; `chunk` at a time, 0 = all."""

    def logprobs(rows: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        scores = torch.log_softmax(model.logits(rows), dim=-1)
        return scores.gather(-1, wanted.unsqueeze(-1)).squeeze(-1)

    if chunk == 0 or chunk >= states.shape[0]:
        return logprobs(states, labels)
    parts = []
    for rows, wanted in zip(states.split(chunk), labels.split(chunk), strict=True):
        if torch.is_grad_enabled():
            # Nothing random inside: saving and restoring the generator's state per chunk would only cost time.
            parts.append(checkpoint(logprobs, rows, wanted, use_reentrant=False, preserve_rng_state=False))
        else:
            parts.append(logprobs(rows, wanted))
    return torch.cat(parts)


@torch.no_grad()
def score(model: LanguageModel, s: Settings, ids: torch.Tensor, keep: torch.Tensor, micro_batch: int) -> torch.Tensor:
    """float32 log-probabilities [N, R] of all response tokens, without gradients, `micro_batch` sequences at a time."""
    model.causal.eval()
    parts = [
        token_logprobs(model, s, some_ids, some_keep)
        for some_ids, some_keep in zip(ids.split(micro_batch), keep.split(micro_batch), strict=True)
    ]
    return torch.cat(parts)
