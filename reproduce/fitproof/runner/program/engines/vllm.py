"""Rollout by vLLM in the trial's own process, where it is installed. Written for the interface of vLLM 0.33.0.

vLLM holds weights of its own. It is given the architecture alone (a folder with a config.json, random weights by
`load_format="dummy"`), and the actor's weights through `LLM.apply_model` and the model's own `load_weights`: before the
first rollout and after every update. An adapter arrives merged. Handing it over as a LoRA instead (LoRARequest) would
need a folder written at every update, leave all-parameter training without a way, and decode with other kernels.

In-process (VLLM_ENABLE_V1_MULTIPROCESSING=0), so that weights pass by reference, exceptions arrive as they are raised,
and what the process uses is what the trial uses. The sleep mode keeps weights and pool in an allocator of vLLM's own,
which the counters of torch's caching allocator may not show: process used and device used do.
"""

import copy
import os
import tempfile
from collections.abc import Iterator

import torch

from ....schema.settings import Settings
from ...guard import refuse_missing_engine
from .. import device as device_ops
from ..models import LanguageModel
from ..recorder import Recorder
from ..sequences import Prompts, unpadded
from .kv_pool import kv_shape

DISCARD_ALL = 2  # vLLM's sleep level: pool and weights go, nothing is kept on the host; an update brings new weights


class VllmEngine:
    """vLLM schedules at most max_num_seqs sequences at once. With free_cache_engine it sleeps between rollouts.

    kv_reservation is handed over as `gpu_memory_utilization`, scaled from the trial's capacity to the physical card,
    of which vLLM takes it to be a fraction. Its pool is what that leaves after its own weights, activations and graphs;
    what else the process holds is not subtracted, unlike in the other engines.
    """

    pool_tokens = None  # vLLM sizes its pool itself, in a resumed run anew

    def __init__(
        self, model: LanguageModel, s: Settings, device: torch.device, recorder: Recorder, sample: bool = True
    ):
        """`model` gives the architecture. Raises EnvironmentLacks where vllm is not installed."""
        refuse_missing_engine(s)
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        import vllm  # here, not above: it is never required, and takes seconds

        self.s, self.device = s, device
        self._is_asleep = False
        config = copy.deepcopy(model.config)
        config.architectures = [type(model.causal).__name__]
        states = device_ops.random_states()
        with tempfile.TemporaryDirectory(prefix="fitproof-") as folder:  # read while the engine is built, never again
            config.save_pretrained(folder)
            self._llm = vllm.LLM(
                folder, load_format="dummy", skip_tokenizer_init=True, dtype=s.dtype,
                gpu_memory_utilization=_utilization(s, device), max_num_seqs=s.max_num_seqs,
                max_model_len=s.sequence_length, enable_sleep_mode=s.free_cache_engine,
                enable_prefix_caching=False,  # prefixes from before an update would be answered with its old weights
            )  # fmt: skip
        device_ops.set_random_states(states)  # vLLM seeds torch's generators
        # Forced lengths: end tokens count like any other. Not by min_tokens, which takes them out of the distribution.
        self._sampling = vllm.SamplingParams(
            temperature=1.0 if sample else 0.0, max_tokens=s.max_response_length, ignore_eos=True, detokenize=False
        )
        layers, heads, head_dim = kv_shape(model.config)
        per_token = 2 * layers * heads * head_dim * getattr(torch, s.dtype).itemsize
        pool = self._llm.llm_engine.vllm_config.cache_config
        recorder.fact("kv_pool_bytes", pool.num_gpu_blocks * pool.block_size * per_token)

    def load_weights(self, weights: Iterator[tuple[str, torch.Tensor]]) -> None:
        """Replace every weight; `weights` under the names of a checkpoint."""
        if self._is_asleep:
            self._llm.wake_up(tags=["weights"])
        self._llm.apply_model(lambda model: len(model.load_weights(weights)))

    def rollout(self, prompts: Prompts) -> torch.Tensor:
        """Full sequences [N, P + R] of token ids."""
        if self._is_asleep and not self._llm.wake_up(tags=["kv_cache"]):
            raise RuntimeError("vLLM's weights were discarded after the last rollout and none were loaded since")
        self._is_asleep = False
        requests = [{"prompt_token_ids": row} for row in unpadded(prompts)]
        outputs = self._llm.generate(requests, self._sampling, use_tqdm=False)
        responses = torch.tensor([list(output.outputs[0].token_ids) for output in outputs], device=self.device)
        if self.s.free_cache_engine:
            self._llm.sleep(level=DISCARD_ALL)
            self._is_asleep = True
        return torch.cat([prompts.ids, responses], dim=1)


def _utilization(s: Settings, device: torch.device) -> float:
    total = device_ops.device_total_bytes(device)
    if s.capacity_mib is None or total is None:
        return float(s.kv_reservation)
    return float(s.kv_reservation) * s.capacity_mib * 2**20 / total
