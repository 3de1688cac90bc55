"""On-policy distillation: the student rolls out, the teacher scores the same positions, no reward.

The loss is the forward divergence from the teacher's top-k (Agarwal et al., On-Policy Distillation of Language Models,
arXiv 2306.13649, with the teacher's distribution cut to its k most likely tokens). The teacher is a model of its own;
where student and teacher share a base and the student is an adapter, it is a second adapter on the same backbone.
"""

import torch

from ....errors import SettingsError
from ....schema.models import get_model
from ..losses import forward_divergence
from ..models import LanguageModel, add_teacher_adapter, build_frozen
from ..scoring import score_top, top_logprobs
from ..updates import Updater
from .policy import PolicyRecipe

TOP_K = 32


class Opd(PolicyRecipe):
    def build_others(self) -> tuple[list[LanguageModel], dict[str, Updater]]:
        self.shares_backbone = self.s.teacher_id == self.s.model_id and self.actor.adapter is not None
        if self.shares_backbone:
            add_teacher_adapter(self.actor, self.s, self.seed + 3, self.device)
            self.teacher = self.actor
            return [], {}
        mine, its = self.actor.config.vocab_size, get_model(self.s.teacher_id).config["vocab_size"]
        if mine != its:
            raise SettingsError(
                f"teacher_id={self.s.teacher_id}", found=f"a vocabulary of {its}", expected=f"the student's, {mine}",
                hint="choose a teacher of the same family",
            )  # fmt: skip
        self.teacher = build_frozen(self.s, self.s.teacher_id, self.seed + 3, self.device)
        self.recorder.fact("teacher_parameters", self.teacher.size())
        return [self.teacher], {}

    def step(self, step: int) -> None:
        s = self.s
        prompts, ids = self.roll_out(step)
        with self.stage("teacher_scoring", step, self.positions, self.teacher), self.teacher.as_teacher():
            top_logp, top_ids = score_top(
                self.passes, "teacher_scoring", self.teacher, s, ids, prompts.keep, s.teacher_micro_batch, TOP_K
            )
            if step == 1:
                self.recorder.fact("teacher_cache_bytes", top_logp.nbytes + top_ids.nbytes)
        with self.stage("actor_update", step, self.positions, self.actor, self.updater):

            def loss_of(ids, keep, top_logp, top_ids) -> torch.Tensor:
                return forward_divergence(top_logp, top_logprobs(self.actor, s, ids, keep, top_ids))

            rows = [ids, prompts.keep, top_logp, top_ids]
            self.updater.update(self.passes, "actor_update", loss_of, rows, s.actor_micro_batch)
        self.sync_weights(step)
