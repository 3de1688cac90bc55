"""Group relative policy optimisation (Shao et al., DeepSeekMath, arXiv 2402.03300).

Per step: roll out rollout_n responses per prompt, score them under the old policy and (with use_kl) the reference,
verify, normalise rewards within each group, and take one optimizer step on the clipped loss.
"""

import contextlib
from collections.abc import Iterator

import torch

from ....errors import EnvironmentLacks
from ....schema.settings import Settings
from .. import device as device_ops
from ..engines.cuda_graph import CudaGraphEngine
from ..engines.hf_generate import HfGenerate
from ..losses import group_advantages, grpo_loss
from ..models import LanguageModel, build_actor, build_frozen, synchronise
from ..prompts import score_response
from ..recorder import Recorder
from ..residency import Movable, Residency
from ..scoring import score, token_logprobs
from ..sequences import make_prompts
from ..updates import Updater


def run(s: Settings, *, seed: int, device: torch.device, recorder: Recorder) -> None:
    Grpo(s, seed=seed, device=device, recorder=recorder).run()


class Grpo:
    def __init__(self, s: Settings, *, seed: int, device: torch.device, recorder: Recorder):
        self.s, self.seed, self.device, self.recorder = s, seed, device, recorder
        with recorder.stage("initializing", 0):
            self.actor = build_actor(s, seed, device)
            self.reference = build_frozen(s, s.model_id, seed, device) if s.reference == "copy" else None
            self.roller = build_frozen(s, s.model_id, seed, device) if s.rollout_weights == "copy" else self.actor
            if self.roller is not self.actor:
                synchronise(self.roller, self.actor)
            self.updater = Updater(self.actor, s, device)
            self.engine = make_engine(self.roller, s, device, recorder)
            models = [self.actor, self.reference, self.roller if self.roller is not self.actor else None]
            self.residency = Residency(s, device, [m for m in models if m is not None], [self.updater])
            record_sizes(recorder, self.actor)
        self.residency.between_stages()

    def run(self) -> None:
        for step in range(1, self.s.total_training_steps + 1):
            self.step(step)

    @contextlib.contextmanager
    def stage(self, name: str, step: int, tokens: int | None, *needed: Movable) -> Iterator[None]:
        """A recorded stage with exactly `needed` on the device."""
        with self.recorder.stage(name, step, tokens):
            self.residency.require(*needed)
            yield
        self.residency.between_stages()

    def step(self, step: int) -> None:
        s, count = self.s, self.s.rollout_batch
        positions, new_tokens = count * s.sequence_length, count * s.max_response_length
        with self.stage("rollout", step, new_tokens, self.roller):
            prompts = make_prompts(s, self.actor.config.vocab_size, self.seed, step, self.device)
            ids = self.engine.rollout(prompts)
        with self.stage("rollout_logprob", step, positions, self.actor):
            old_logp = score(self.actor, s, ids, prompts.keep, s.rollout_logprob_micro_batch)
        ref_logp = None
        if s.reference != "none":
            scorer = self.reference or self.actor
            with self.stage("reference_logprob", step, positions, scorer), scorer.without_adapter():
                ref_logp = score(scorer, s, ids, prompts.keep, s.ref_logprob_micro_batch)
        with self.stage("reward", step, new_tokens):
            responses = device_ops.host_tokens(ids[:, s.max_prompt_length :])
            rewards = [score_response(task, r) for task, r in zip(prompts.tasks, responses, strict=True)]
            advantages = group_advantages(torch.tensor(rewards, device=self.device), s.rollout_n)
        with self.stage("actor_update", step, positions, self.actor, self.updater):

            def loss_of(rows: slice) -> torch.Tensor:
                logp = token_logprobs(self.actor, s, ids[rows], prompts.keep[rows])
                return grpo_loss(logp, old_logp[rows], None if ref_logp is None else ref_logp[rows], advantages[rows])

            self.updater.update(count, s.actor_micro_batch, loss_of)
        if self.roller is not self.actor:
            with self.stage("weight_sync", step, None, self.actor, self.roller):
                synchronise(self.roller, self.actor)


def make_engine(model: LanguageModel, s: Settings, device: torch.device, recorder: Recorder):
    """The rollout engine that the settings name: an object with `rollout(prompts) -> ids [N, P + R]`."""
    if s.rollout_engine == "cuda_graph":
        return CudaGraphEngine(model, s, device, recorder)
    if s.rollout_engine == "hf_generate":
        return HfGenerate(model, s, device)
    raise EnvironmentLacks(
        f"rollout_engine={s.rollout_engine}", found="this version of the trial program",
        expected="cuda_graph or hf_generate", hint="plan the configuration with one of these engines",
    )  # fmt: skip


def record_sizes(recorder: Recorder, actor: LanguageModel) -> None:
    trainable = actor.trainable()
    recorder.fact("parameters", sum(p.numel() for p in actor.parameters()))
    recorder.fact("trainable_parameters", sum(p.numel() for p in trainable))
    if actor.adapter is not None:
        recorder.fact("adapter_bytes", sum(p.nbytes for p in trainable))
