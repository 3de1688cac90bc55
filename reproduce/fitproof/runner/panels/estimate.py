"""Expected device seconds of a slot, so that a plan shows its price and a deadline can be kept.

A rough cost model with round constants for one H200, on the high side: start-up, one decode step per position and
wave, scoring and updating by floating-point operations with a floor per micro-batch. It decides nothing that is
measured.
"""

import math

from ...schema.models import get_model
from ...schema.settings import Settings

_START_SECONDS = 2.0  # fork, context, first kernels, clean-up
_SECONDS_PER_PARAMETER = 1.5e-9  # filling random weights
_LAYER_SECONDS = 1.2e-4  # one decoded position through one layer, small batch
_CACHED_TOKEN_LAYER_SECONDS = 1.1e-8  # attention of one decoded position over one position of the pool, one layer
_FLOPS = 2.0e14
_KERNEL_FLOOR_SECONDS = 1.2e-3  # one layer, one micro-batch, one pass: launching kernels
_SLOWER = {"hf_generate": 4, "hf_paged": 12}  # than cuda_graph
_EDGE_POSITIONS, _BUCKETS = 16, 8
_EDGE_MICRO_BATCHES = 2
_CPU_SECONDS = 5.0  # tiny models; half a second each on two idle cores, more on busy ones


def estimate_seconds(settings: Settings, *, device_kind: str = "cuda") -> int:
    """Whole seconds, at least 1, of one attempt with its start-up and clean-up."""
    if device_kind == "cpu":
        return round(_CPU_SECONDS)
    model = get_model(settings.model_id)
    parameters, layers = model.parameters or 1_000_000, model.config["num_hidden_layers"]
    copies = 1 + (settings.reference == "copy") + (settings.rollout_weights == "copy") + (settings.algorithm == "ppo")
    build = _START_SECONDS + copies * parameters * _SECONDS_PER_PARAMETER
    step = _decode(settings, layers) + _score_and_update(settings, parameters, layers)
    return max(1, math.ceil(build + settings.total_training_steps * step))


def _decode(s: Settings, layers: int) -> float:
    positions = s.max_response_length
    if s.decode_coverage == "edges":
        positions = min(positions, _EDGE_POSITIONS * _BUCKETS)
    batch = min(s.max_num_seqs, s.rollout_batch)
    waves = math.ceil(s.rollout_batch / batch)
    slower = _SLOWER.get(s.rollout_engine, 1)
    return (
        waves * positions * layers * slower * (_LAYER_SECONDS + batch * s.sequence_length * _CACHED_TOKEN_LAYER_SECONDS)
    )


def _score_and_update(s: Settings, parameters: int, layers: int) -> float:
    """Two operations a parameter and token forward, four backward, two more where activations are recomputed."""
    update = (6 + 2 * s.gradient_checkpointing, 3 + s.gradient_checkpointing, s.actor_micro_batch)
    score = (2, 1)
    passes = [update]
    for micro_batch in (s.rollout_logprob_micro_batch, s.ref_logprob_micro_batch, s.teacher_micro_batch):
        if micro_batch is not None:
            passes.append((*score, micro_batch))
    if s.critic_micro_batch is not None:
        passes += [(*update[:2], s.critic_micro_batch), (*score, s.critic_micro_batch)]
    seconds = 0.0
    for operations, sweeps, micro_batch in passes:
        batches = math.ceil(s.rollout_batch / micro_batch)
        if s.micro_batch_coverage == "edges":
            batches = min(batches, _EDGE_MICRO_BATCHES + (s.rollout_batch % micro_batch > 0))
        tokens = min(s.rollout_batch, batches * micro_batch) * s.sequence_length
        seconds += max(tokens * parameters * operations / _FLOPS, batches * layers * sweeps * _KERNEL_FLOOR_SECONDS)
    return seconds
