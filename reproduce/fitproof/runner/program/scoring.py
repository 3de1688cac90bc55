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
    labels = ids[:, keep.shape[1] :]
    return top_logprobs(model, s, ids, keep, labels.unsqueeze(-1)).squeeze(-1)


def top_logprobs(
    model: LanguageModel, s: Settings, ids: torch.Tensor, keep: torch.Tensor, wanted: torch.Tensor
) -> torch.Tensor:
    """float32 log-probabilities [b, R, k] of k given tokens `wanted` [b, R, k] at each response position."""
    states = response_states(model, s, ids, keep)
    flat = project_logprobs(model, states.flatten(0, 1), wanted.flatten(0, 1), s.logits_chunk)
    return flat.view(wanted.shape)


def project_logprobs(model: LanguageModel, states: torch.Tensor, labels: torch.Tensor, chunk: int) -> torch.Tensor:
    """float32 log-probabilities [n, k] of `labels` [n, k] given hidden states [n, H]; `chunk` rows at once, 0 = all."""

    def logprobs(rows: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        return torch.log_softmax(model.logits(rows), dim=-1).gather(-1, wanted)

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


def values(critic: LanguageModel, s: Settings, ids: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    """float32 values [b, R] of the state before each response token."""
    return critic.logits(response_states(critic, s, ids, keep)).squeeze(-1)


def _micro_batches(ids: torch.Tensor, keep: torch.Tensor, size: int):
    return zip(ids.split(size), keep.split(size), strict=True)


@torch.no_grad()
def score(model: LanguageModel, s: Settings, ids: torch.Tensor, keep: torch.Tensor, micro_batch: int) -> torch.Tensor:
    """float32 log-probabilities [N, R] of all response tokens, without gradients, `micro_batch` sequences at a time."""
    model.causal.eval()
    return torch.cat([token_logprobs(model, s, *part) for part in _micro_batches(ids, keep, micro_batch)])


@torch.no_grad()
def score_values(
    critic: LanguageModel, s: Settings, ids: torch.Tensor, keep: torch.Tensor, micro_batch: int
) -> torch.Tensor:
    """float32 values [N, R], without gradients."""
    critic.causal.eval()
    return torch.cat([values(critic, s, *part) for part in _micro_batches(ids, keep, micro_batch)])


@torch.no_grad()
def score_top(
    model: LanguageModel, s: Settings, ids: torch.Tensor, keep: torch.Tensor, micro_batch: int, k: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The k most likely tokens of each response position: float32 log-probabilities and ids, both [N, R, k]."""
    model.causal.eval()
    scores, tokens = [], []
    for some_ids, some_keep in _micro_batches(ids, keep, micro_batch):
        states = response_states(model, s, some_ids, some_keep)
        shape, rows = (*states.shape[:2], k), states.flatten(0, 1)
        parts = [
            torch.log_softmax(model.logits(part), dim=-1).topk(k, dim=-1)
            for part in rows.split(s.logits_chunk or rows.shape[0])
        ]
        scores.append(torch.cat([p.values for p in parts]).view(shape))
        tokens.append(torch.cat([p.indices for p in parts]).view(shape))
    return torch.cat(scores), torch.cat(tokens)
