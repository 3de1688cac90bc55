"""Rollout by transformers' continuous batching: a paged pool with a reservation, from a library.

The requests of a rollout go into transformers' manager, whose background thread schedules, decodes and samples them.
Outside of the simulation, so that values may be read on the host here: prompts go in without their padding, as lists.

What transformers 5.17 is told, and why:
- `num_blocks` and `max_batch_tokens` outright. By `max_memory_percent` alone it would size the pool as a share of the
  memory that happens to be free, and let the rest of the card go to a mask of max_batch_tokens x pool positions.
- A paged form of the settings' own attention. Left to itself it changes to flash attention wherever that, or the means
  to download it, is installed.
- No sharing of blocks: a resident pool would find prompts there that were computed with the weights before an update.
- No captured graphs and no double buffering, which it recommends only without a mask.
"""

import contextlib
import logging
import time
from collections.abc import Iterator

import torch
from transformers import ContinuousBatchingConfig, GenerationConfig
from transformers.generation import ContinuousBatchingManager

from ....schema.settings import Settings
from .. import device as device_ops
from ..models import LanguageModel
from ..prompts import PAD_ID
from ..recorder import Recorder
from ..sequences import Prompts, unpadded
from .kv_pool import kv_shape, pool_tokens

BLOCK = 256  # positions per block, transformers' default
PADDING_BLOCKS = 2  # the library allocates so many more than num_blocks, for positions that pad a batch
LOGGER = "ContinuousBatchingLogger"  # the library's
PREFILL_TOKENS = 1024  # most positions per forward pass: the mask has a row for each, as long as the whole pool


class HfPagedEngine:
    """Waves of at most max_num_seqs sequences, as many as the pool is sure to hold: none is ever evicted.

    With free_cache_engine the manager, its pool and its buffers are made anew for each rollout; otherwise they stay.
    """

    def __init__(
        self, model: LanguageModel, s: Settings, device: torch.device, recorder: Recorder, sample: bool = True
    ):
        self.model, self.s, self.device, self.recorder, self.sample = model, s, device, recorder, sample
        self.pool_tokens: int | None = None  # the pool's size is fixed when it is first made, or by a checkpoint
        self._is_recorded = False
        self._manager: ContinuousBatchingManager | None = None

    def rollout(self, prompts: Prompts) -> torch.Tensor:
        """Full sequences [N, P + R] of token ids."""
        self.model.causal.eval()
        rows = unpadded(prompts)
        with _quiet_library(), self._paged_attention():
            if self._manager is None:
                self._manager = self._open(len(rows))
            responses = _generate(self._manager, rows)
            if self.s.free_cache_engine:
                self.release()
        return torch.cat([prompts.ids, torch.tensor(responses, device=self.device)], dim=1)

    def release(self) -> None:
        """End the manager, free its pool and buffers and return their memory to the driver."""
        if self._manager is not None:
            self._manager = None
            self.model.causal.destroy_cached_continuous_batching_manager()
            device_ops.empty_cache(self.device)

    def _open(self, batch: int) -> ContinuousBatchingManager:
        """A manager with its pool, not started. Raises torch.OutOfMemoryError where there is no room for it."""
        s, dtype = self.s, self.model.trunk.embed_tokens.weight.dtype
        layers, heads, head_dim = kv_shape(self.model.config)
        most = min(s.max_num_seqs, batch)
        # The scheduler takes a block early when the last is one short of full.
        blocks_per_sequence = s.sequence_length // BLOCK + 1
        if self.pool_tokens is None:
            per_token = 2 * layers * heads * head_dim * dtype.itemsize
            wanted, least = ((n * blocks_per_sequence + PADDING_BLOCKS) * BLOCK for n in (most, 1))
            device_ops.empty_cache(self.device)  # as the library does before it makes the pool
            reserved = self.recorder.reserved_bytes()
            self.pool_tokens = pool_tokens(s, per_token, self.device, reserved, wanted, least)
        blocks = self.pool_tokens // BLOCK - PADDING_BLOCKS
        wave = min(most, blocks // blocks_per_sequence)
        config = ContinuousBatchingConfig(
            block_size=BLOCK, num_blocks=blocks, max_requests_per_batch=wave,
            max_batch_tokens=max(wave, min(PREFILL_TOKENS, wave * s.max_prompt_length)),
            max_memory_percent=1.0,  # the pool's size is settled: it may fill what is free
            safety_margin=0.0,  # for the same reason no block need be held back
            max_blocks_per_request=0, allow_block_sharing=False, use_cuda_graph=False, use_async_batching=False,
            seed=0,  # or it draws one
        )  # fmt: skip
        # It seeds torch's generators when it makes its buffers. A resident pool is made once per process, a resumed run
        # has one process more: neither may move the trial's random numbers.
        states = device_ops.random_states()
        manager = self.model.causal.init_continuous_batching(self._generation_config(), config)
        try:
            manager.warmup()  # makes pool and buffers here and now, where an exception reaches us; runs nothing
        except MemoryError as error:  # its estimate of pool, buffers and activations exceeds what the device has free
            raise torch.OutOfMemoryError(f"No available memory for the cache blocks: {error}") from None
        device_ops.set_random_states(states)
        if not self._is_recorded:
            self._is_recorded = True
            cache = manager.batch_processor.cache
            self.recorder.fact("kv_pool_bytes", sum(t.nbytes for t in (*cache.key_cache, *cache.value_cache)))
            self.recorder.fact("wave_sequences", wave)
        return manager

    def _generation_config(self) -> GenerationConfig:
        # Forced lengths: -1 is no token, so only max_new_tokens stops. Without top_k and top_p it samples from the
        # whole distribution, whose log-probabilities the update then uses.
        return GenerationConfig(
            max_new_tokens=self.s.max_response_length, do_sample=self.sample, eos_token_id=-1, pad_token_id=PAD_ID
        )

    @contextlib.contextmanager
    def _paged_attention(self) -> Iterator[None]:
        """The paged form of the settings' attention for the rollout, their own for everything else."""
        causal = self.model.causal
        own = causal.config._attn_implementation
        causal.set_attn_implementation(f"paged|{self.s.attn_implementation}")
        try:
            yield
        finally:
            causal.set_attn_implementation(own)


def _generate(manager: ContinuousBatchingManager, rows: list[list[int]]) -> list[list[int]]:
    """The response to each of `rows`. Raises the very exception that ended the background thread.

    All requests are there before the thread starts: which of them share a batch, and so what is sampled, must not
    depend on how fast it looks.
    """
    manager.background_thread_status.clear()  # it takes no requests after a stop
    names = manager.add_requests(rows)
    manager.start()
    found = {}
    try:
        while len(found) < len(names):
            output = manager.get_result(timeout=1)
            if output is not None:
                found[output.request_id] = output
            elif not manager.is_running():
                break
    except BaseException:
        _end(manager)
        raise
    errors = [output.error for output in found.values() if output.error is not None]
    if errors or len(found) < len(names):
        # Not by `stop`, which empties the allocator's cache: what was reserved and free at the failure is evidence.
        _end(manager)
        raise manager.background_thread_status.fatal_error or RuntimeError(
            errors[0] if errors else f"continuous batching ended with {len(found)} of {len(names)} responses"
        )
    manager.stop(keep_for_next_session=True)  # pool and buffers stay until they are released
    return [found[name].generated_tokens for name in names]


def _end(manager: ContinuousBatchingManager) -> None:
    """Wait for the background thread, whatever it still had to do."""
    status = manager.background_thread_status
    status.request_stop(status.HARD_STOP, global_rank=0)
    manager.join(time.perf_counter())


@contextlib.contextmanager
def _quiet_library() -> Iterator[None]:
    """The library logs an exception of its thread with the folders of this machine; the trial reports it anyway."""
    logger = logging.getLogger(LOGGER)
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
