"""Rollout with a static KV pool and one captured decode graph per bucket of lengths: the fast path for panels.

On a CPU the same step runs over the same pool without capture. A wave prefills its prompts eagerly, draws the first
response token, then every further token is one replay: the step reads and advances its own position, samples inside
the graph and writes into the sequences' buffer, so the host only counts.
"""

import functools
from collections.abc import Callable

import torch

from ....schema.settings import Settings
from .. import device as device_ops
from ..micro_batches import MicroBatches
from ..models import LanguageModel
from ..recorder import Recorder
from ..sequences import Prompts, attention_mask, position_ids
from .decoder import Decoder
from .kv_pool import KVPool, PrefillWriter, kv_shape, pool_tokens

PREFILL_TOKENS = 8192  # prompts go through the model in chunks of whole sequences of about so many positions
BUCKETS = 8  # most graphs per wave size
BUCKET_STEP = 64  # bucket widths are multiples of this
EDGE = 8  # decode_coverage=edges decodes so many positions at either end of a bucket


def buckets(prompt: int, response: int) -> list[tuple[int, int, int]]:
    """(first, last, length) per bucket: decode steps whose token stands at first <= position < last attend to the
    first `length` pool positions. The steps run from `prompt` to prompt + response - 2: the last token is never fed.
    """
    width = max(BUCKET_STEP, -(-response // BUCKETS // BUCKET_STEP) * BUCKET_STEP)
    end = prompt + response - 1
    return [(first, min(first + width, end), min(first + width, prompt + response))
            for first in range(prompt, end, width)]  # fmt: skip


class CudaGraphEngine:
    """Keeps pool and graphs from call to call, unless `release` is called or the model's weights moved."""

    def __init__(
        self, model: LanguageModel, s: Settings, device: torch.device, recorder: Recorder, sample: bool = True,
        passes: MicroBatches | None = None,
    ):  # fmt: skip
        # Prefill is captured too where the settings say so and the pool keeps its addresses.
        self._passes = None if s.free_cache_engine else passes
        self.model, self.s, self.device, self.recorder, self.sample = model, s, device, recorder, sample
        self.pool_tokens: int | None = None  # the pool's size is fixed when it is first made, or by a checkpoint
        self._is_recorded = False
        self._state: _Wave | None = None

    @torch.no_grad()
    def rollout(self, prompts: Prompts) -> torch.Tensor:
        """Full sequences [N, P + R] of token ids."""
        self.model.causal.eval()
        if self._state is not None and self._state.moves != self.model.moves:
            self.release()  # the graphs hold the weights' old addresses
        if self._state is None:
            self._state = self._make_wave(prompts.ids.shape[0])
        else:
            self._state.decoder.refresh()
        wave, count = self._state.pool.slots, prompts.ids.shape[0]
        sequences = torch.empty(count, self.s.sequence_length, dtype=torch.long, device=self.device)
        for start in range(0, count, wave):
            # A last, smaller wave would have other shapes and need graphs of its own: it starts earlier instead and
            # rolls some sequences out once more.
            rows = slice(min(start, count - wave), min(start, count - wave) + wave)
            self._state.run(prompts.ids[rows], prompts.keep[rows])
            sequences[rows].copy_(self._state.sequences)
        if self.s.free_cache_engine:
            self.release()
        return sequences

    def release(self) -> None:
        """Drop graphs and pool and return their memory to the driver, as the sleep modes of rollout engines do.

        The allocator keeps a dead graph's private pool apart until its cache is emptied: without that, each rollout
        would leave one more behind.
        """
        if self._state is not None:
            self._state.close()
            self._state = None
            device_ops.empty_cache(self.device)

    def _make_wave(self, batch: int) -> "_Wave":
        s, (layers, heads, head_dim) = self.s, kv_shape(self.model.config)
        dtype = self.model.trunk.embed_tokens.weight.dtype
        most = min(s.max_num_seqs, batch)
        if self.pool_tokens is None:
            per_token = 2 * layers * heads * head_dim * dtype.itemsize
            wanted, reserved = most * s.sequence_length, self.recorder.reserved_bytes()
            self.pool_tokens = pool_tokens(s, per_token, self.device, reserved, wanted, s.sequence_length)
        slots = min(most, self.pool_tokens // s.sequence_length)
        pool = KVPool(layers, heads, head_dim, slots, s.sequence_length, self.pool_tokens, dtype, self.device)
        if not self._is_recorded:
            self._is_recorded = True
            self.recorder.fact("kv_pool_bytes", pool.nbytes)
            self.recorder.fact("wave_sequences", slots)
            self.recorder.fact("decode_buckets", len(buckets(s.max_prompt_length, s.max_response_length)))
        return _Wave(self.model, s, pool, self.device, self.sample, self._passes)


class _Wave:
    """Pool, graphs and the buffers that a decode step reads and writes, for one wave of sequences."""

    def __init__(self, model: LanguageModel, s: Settings, pool: KVPool, device: torch.device, sample: bool,
                 passes: MicroBatches | None):  # fmt: skip
        self.model, self.s, self.pool, self.sample, self.passes = model, s, pool, sample, passes
        self.moves = model.moves
        self.decoder = Decoder(model, pool)
        self._graph_pool = device_ops.GraphPool(device)
        self._graphs: dict[int, Callable[[], None]] = {}
        w = pool.slots
        self.sequences = torch.zeros(w, s.sequence_length, dtype=torch.long, device=device)
        self.tokens = torch.zeros(w, dtype=torch.long, device=device)
        self.positions = torch.zeros(w, dtype=torch.long, device=device)  # rotary position of the token to feed
        self.padding = torch.zeros(w, 1, dtype=torch.long, device=device)  # first visible pool position
        self.slot = torch.zeros(1, dtype=torch.long, device=device)  # pool position of the token to feed
        self.pool_index = torch.arange(s.sequence_length, device=device)

    def run(self, ids: torch.Tensor, keep: torch.Tensor) -> None:
        """Fill `sequences` [W, P + R] from prompts [W, P]."""
        self._prefill(ids, keep)
        for first, last, length in buckets(self.s.max_prompt_length, self.s.max_response_length):
            step = self._step_for(length)
            count = last - first
            skipped = count - 2 * EDGE if self.s.decode_coverage == "edges" and count > 2 * EDGE else 0
            for _ in range(EDGE if skipped else count):
                step()
            if skipped:
                self.slot.add_(skipped)
                self.positions.add_(skipped)
                for _ in range(EDGE):
                    step()

    def close(self) -> None:
        """Drop the graphs. On a CPU they are closures over this object: a cycle that would keep the pool alive."""
        self._graphs.clear()

    def _prefill(self, ids: torch.Tensor, keep: torch.Tensor) -> None:
        prompt = ids.shape[1]
        self.sequences.zero_()
        self.sequences[:, :prompt].copy_(ids)
        positions = position_ids(keep, prompt)
        chunk = max(1, PREFILL_TOKENS // prompt)
        for first in range(0, ids.shape[0], chunk):
            rows = slice(first, min(first + chunk, ids.shape[0]))
            part, count = (ids[rows], keep[rows], positions[rows]), rows.stop - first
            if self.passes is not None and self.passes.captures(count, count):
                self.passes.run(("prefill", first), functools.partial(self._prefill_chunk, first), part, count)
            else:
                self._prefill_chunk(first, *part)
        self.sequences[:, prompt].copy_(self.tokens)
        self.positions.copy_(positions[:, -1] + 1)
        self.padding.copy_(prompt - keep.sum(-1, keepdim=True))
        self.slot.fill_(prompt)

    def _prefill_chunk(self, first: int, ids: torch.Tensor, keep: torch.Tensor, positions: torch.Tensor) -> None:
        """Keys and values of prompts `first` and following [b, P] into the pool; their first drawn tokens."""
        mask = attention_mask(self.s, keep, ids.shape[1], self.pool.keys[0].dtype)
        states = self.model.trunk(
            input_ids=ids, attention_mask=mask, position_ids=positions,
            past_key_values=PrefillWriter(self.pool, first), use_cache=True,
        ).last_hidden_state  # fmt: skip
        self.tokens[first : first + ids.shape[0]].copy_(self._draw(self.model.logits(states[:, -1])))

    def _draw(self, logits: torch.Tensor) -> torch.Tensor:
        """Next tokens [W] from float32 logits [W, V], which are used up.

        Sampling from softmax(logits) as argmax(logits - log(E)), E exponential (the Gumbel trick): unlike multinomial
        it needs no probabilities, no scratch and no look at the data on the host, so it can be captured.
        """
        if self.sample:
            logits.sub_(torch.empty_like(logits).exponential_().log_())
        return logits.argmax(dim=-1)

    def _step_for(self, length: int) -> Callable[[], None]:
        if length not in self._graphs:
            self._graphs[length] = self._graph_pool.capture(lambda: self._step(length))
        return self._graphs[length]

    def _step(self, length: int) -> None:
        """Feed `tokens`, draw the next ones, write them down, advance. No value is read on the host."""
        index = self.pool_index[:length]
        hidden = (index > self.slot) | (index < self.padding)  # [W, Lb]
        bias = torch.zeros(hidden.shape, dtype=self.pool.keys[0].dtype, device=hidden.device)
        bias.masked_fill_(hidden, float("-inf"))
        heads = self.pool.keys[0].shape[1]
        bias = bias[:, None].expand(-1, heads, -1).reshape(-1, 1, length)
        drawn = self._draw(self.decoder.step(self.tokens, self.slot, self.positions, bias))
        self.tokens.copy_(drawn)
        self.slot.add_(1)
        self.positions.add_(1)
        self.sequences.index_copy_(1, self.slot, drawn[:, None])
