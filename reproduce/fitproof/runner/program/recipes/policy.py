"""What every recipe has: a policy under training, its rollout engine, its optimizer, and recorded stages."""

import contextlib
import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from ....schema.settings import Settings
from ...hold import FACT as HELD
from ...hold import hold
from .. import checkpoint
from .. import device as device_ops
from ..engines.cuda_graph import CudaGraphEngine
from ..engines.hf_generate import HfGenerate
from ..engines.hf_paged import HfPagedEngine
from ..engines.vllm import VllmEngine
from ..losses import policy_loss
from ..micro_batches import MicroBatches
from ..models import LanguageModel, build_actor, build_frozen, merged_weights, synchronise
from ..prompts import score_response
from ..recorder import Recorder
from ..residency import Movable, Residency
from ..scoring import score, token_logprobs
from ..sequences import Prompts, make_prompts
from ..training_state import TrainingState
from ..updates import Updater


class PolicyRecipe:
    """Subclasses add models in `build_others` and put the stages of a step in order in `step`."""

    def __init__(
        self, s: Settings, *, seed: int, device: torch.device, recorder: Recorder, checkpoints: Path | None = None
    ):
        self.s, self.seed, self.device, self.recorder, self.checkpoints = s, seed, device, recorder, checkpoints
        self.completed_steps = 0
        self.passes = MicroBatches(s, device)
        with recorder.stage("initializing", 0):
            self.actor = build_actor(s, seed, device)
            self.reference = build_frozen(s, s.model_id, seed, device) if s.reference == "copy" else None
            self.roller = self._build_roller()
            self.engine = make_engine(self.roller or self.actor, s, device, recorder, self.passes)
            self.copy_weights()
            self.updater = Updater(self.actor, s, device)
            more_models, more_updaters = self.build_others()
            models = [self.actor, *([] if self.reference is None else [self.reference]), *more_models]
            if self.roller not in (None, self.actor):
                models.append(self.roller)
            self.residency = Residency(s, device, models, [self.updater, *more_updaters.values()])
            record_sizes(recorder, self.actor)
            self.state = TrainingState(s, seed, device, {"actor": self.updater, **more_updaters}, self.engine)
            self.resume()
        self.residency.between_stages()

    def build_others(self) -> tuple[list[LanguageModel], dict[str, Updater]]:
        """Models of this recipe alone, and their optimizers under the names of what they train."""
        return [], {}

    def step(self, step: int) -> None:
        raise NotImplementedError

    def run(self, hold_after: int | None = None) -> None:
        for step in range(self.completed_steps + 1, self.s.total_training_steps + 1):
            self.step(step)
            if self.s.checkpoint_every and step % self.s.checkpoint_every == 0:
                self.save(step)
            if step == hold_after:
                self.recorder.fact(HELD, step)
                hold()

    def save(self, step: int) -> None:
        """Stage checkpoint. Whatever is on the device stays there, what is away stays away."""
        with self.recorder.stage("checkpoint", step):
            self.recorder.fact("checkpoint_bytes", self.state.save(self.checkpoints, step))
        self.residency.between_stages()

    def resume(self) -> None:
        """Take up the newest whole checkpoint, where there is one, as the last part of initializing."""
        begun = time.monotonic_ns()
        found = checkpoint.latest(self.checkpoints) if self.checkpoints is not None else None
        if found is None:
            return
        self.completed_steps = self.state.restore(found)
        self.copy_weights()
        self.recorder.fact("resumed_from_step", self.completed_steps)
        self.recorder.fact("resume_load_ns", time.monotonic_ns() - begun)

    @property
    def positions(self) -> int:
        """Positions of all sequences of a step."""
        return self.s.rollout_batch * self.s.sequence_length

    @property
    def new_tokens(self) -> int:
        return self.s.rollout_batch * self.s.max_response_length

    @contextlib.contextmanager
    def stage(self, name: str, step: int, tokens: int | None, *needed: Movable) -> Iterator[None]:
        """A recorded stage with exactly `needed` on the device."""
        with self.recorder.stage(name, step, tokens):
            self.residency.require(*needed)
            yield
        self.residency.between_stages()

    def roll_out(self, step: int) -> tuple[Prompts, torch.Tensor]:
        """Stage rollout: prompts and full sequences [N, P + R]."""
        with self.stage("rollout", step, self.new_tokens, *self._rolling):
            prompts = make_prompts(self.s, self.actor.config.vocab_size, self.seed, step, self.device)
            ids = self.engine.rollout(prompts)
        if self.s.deterministic:  # two runs that are to be equal say here whether they are
            text = json.dumps(device_ops.host_tokens(ids))
            self.recorder.fact("rollout_sha256", hashlib.sha256(text.encode()).hexdigest())
        return prompts, ids

    def old_logprobs(self, step: int, prompts: Prompts, ids: torch.Tensor) -> torch.Tensor:
        """Stage rollout_logprob: log-probabilities [N, R] under the policy that rolled out."""
        with self.stage("rollout_logprob", step, self.positions, self.actor):
            size = self.s.rollout_logprob_micro_batch
            return score(self.passes, "rollout_logprob", self.actor, self.s, ids, prompts.keep, size)

    def reference_logprobs(self, step: int, prompts: Prompts, ids: torch.Tensor) -> torch.Tensor | None:
        """Stage reference_logprob: log-probabilities [N, R] under the reference; None, and no stage, without one."""
        if self.s.reference == "none":
            return None
        scorer = self.reference or self.actor
        with self.stage("reference_logprob", step, self.positions, scorer), scorer.without_adapter():
            size = self.s.ref_logprob_micro_batch
            return score(self.passes, "reference_logprob", scorer, self.s, ids, prompts.keep, size)

    def rewards(self, prompts: Prompts, ids: torch.Tensor) -> torch.Tensor:
        """Rewards [N] of the verifier. Called inside a stage of the recipe's."""
        responses = device_ops.host_tokens(ids[:, self.s.max_prompt_length :])
        values = [score_response(task, r) for task, r in zip(prompts.tasks, responses, strict=True)]
        return torch.tensor(values, device=self.device)

    def update_actor(
        self,
        step: int,
        prompts: Prompts,
        ids: torch.Tensor,
        old_logp: torch.Tensor,
        ref_logp: torch.Tensor | None,
        advantages: torch.Tensor,
    ) -> None:
        """Stage actor_update: one optimizer step on the clipped policy loss; `advantages` is [N, 1] or [N, R]."""

        def loss_of(ids, keep, old_logp, advantages, ref_logp=None) -> torch.Tensor:
            return policy_loss(token_logprobs(self.actor, self.s, ids, keep), old_logp, ref_logp, advantages)

        rows = [ids, prompts.keep, old_logp, advantages, *([] if ref_logp is None else [ref_logp])]
        with self.stage("actor_update", step, self.positions, self.actor, self.updater):
            self.updater.update(self.passes, "actor_update", loss_of, rows, self.s.actor_micro_batch)

    def sync_weights(self, step: int) -> None:
        """Stage weight_sync, where the engine has weights of its own."""
        if self.s.rollout_weights == "copy":
            with self.stage("weight_sync", step, None, self.actor, *self._rolling):
                self.copy_weights()

    def copy_weights(self) -> None:
        """Write the actor's weights as they are now, adapters merged, into what rolls out, where that is another."""
        if self.roller is None:
            self.engine.load_weights(merged_weights(self.actor))
        elif self.roller is not self.actor:
            synchronise(self.roller, self.actor)

    def _build_roller(self) -> LanguageModel | None:
        """The model that rolls out; None where the engine's own weights do."""
        if self.s.rollout_engine == "vllm":
            return None
        if self.s.rollout_weights == "shared":
            return self.actor
        return build_frozen(self.s, self.s.model_id, self.seed, self.device)

    @property
    def _rolling(self) -> tuple[LanguageModel, ...]:
        return () if self.roller is None else (self.roller,)


def make_engine(model: LanguageModel, s: Settings, device: torch.device, recorder: Recorder, passes: MicroBatches):
    """The rollout engine that the settings name: an object with `rollout(prompts) -> ids [N, P + R]`.

    `model` rolls out, except with vllm, which takes its architecture and has `load_weights` for the rest. Raises
    EnvironmentLacks where vllm is not installed.
    """
    if s.rollout_engine == "hf_generate":
        return HfGenerate(model, s, device)
    if s.rollout_engine == "cuda_graph":
        return CudaGraphEngine(model, s, device, recorder, passes=passes)
    return {"hf_paged": HfPagedEngine, "vllm": VllmEngine}[s.rollout_engine](model, s, device, recorder)


def record_sizes(recorder: Recorder, actor: LanguageModel) -> None:
    trainable = actor.trainable()
    recorder.fact("parameters", actor.size())
    recorder.fact("trainable_parameters", sum(p.numel() for p in trainable))
    if actor.adapter is not None:
        recorder.fact("adapter_bytes", sum(p.nbytes for p in trainable))
