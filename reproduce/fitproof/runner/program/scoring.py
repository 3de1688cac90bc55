"""Log-probabilities of response tokens, in micro-batches and, on request, in chunks of the vocabulary projection.

The projection to V logits is the usual memory spike: unchunked, [b * R, V] exists in the model's dtype, in float32 and
once more as log-softmax. With `logits_chunk` = c only [c, V] does; under autograd each chunk is checkpointed, so that
the backward pass holds one chunk at a time too instead of all of them.
"""

import torch
from torch.utils.checkpoint import checkpoint

from ...schema.settings import Settings
from .micro_batches import MicroBatches
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


@torch.no_grad()
def score(
    passes: MicroBatches, name: str, model: LanguageModel, s: Settings, ids: torch.Tensor, keep: torch.Tensor, size: int
) -> torch.Tensor:
    """float32 log-probabilities [N, R] of all response tokens, without gradients, in micro-batches of `size`."""
    model.causal.eval()
    return torch.cat(passes.run(name, lambda *rows: token_logprobs(model, s, *rows), (ids, keep), size))


@torch.no_grad()
def score_values(
    passes: MicroBatches,
    name: str,
    critic: LanguageModel,
    s: Settings,
    ids: torch.Tensor,
    keep: torch.Tensor,
    size: int,
) -> torch.Tensor:
    """float32 values [N, R], without gradients, in micro-batches of `size`."""
    critic.causal.eval()
    return torch.cat(passes.run(name, lambda *rows: values(critic, s, *rows), (ids, keep), size))


@torch.no_grad()
def score_top(
    passes: MicroBatches, name: str, model: LanguageModel, s: Settings, ids: torch.Tensor, keep: torch.Tensor,
    size: int, k: int,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """The k most likely tokens of each response position: float32 log-probabilities and ids, both [N, R, k]."""
    model.causal.eval()

    def top(ids: torch.Tensor, keep: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        states = response_states(model, s, ids, keep)
        shape, rows = (*states.shape[:2], k), states.flatten(0, 1)
        parts = [
            torch.log_softmax(model.logits(part), dim=-1).topk(k, dim=-1)
            for part in rows.split(s.logits_chunk or rows.shape[0])
        ]
        return (
            torch.cat([p.values for p in parts]).view(shape),
            torch.cat([p.indices for p in parts]).view(shape),
        )

    scores, tokens = zip(*passes.run(name, top, (ids, keep), size), strict=True)
    return torch.cat(scores), torch.cat(tokens)
