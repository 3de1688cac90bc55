"""Proximal policy optimisation with a full-parameter critic (Schulman et al., arXiv 1707.06347).

Per step: roll out, score under the old policy and the reference, verify; the critic values every response position
and is fitted to the returns; then the actor takes one step on the clipped loss with generalised advantages. The
critic has the actor's architecture with a scalar head, all of it trainable, and an optimizer of its own.
"""

import torch

from ..losses import clipped_value_loss, generalised_advantages, whiten
from ..models import LanguageModel, build_critic
from ..scoring import score_values, values
from ..updates import Updater
from .policy import PolicyRecipe


class Ppo(PolicyRecipe):
    def build_others(self) -> tuple[list[LanguageModel], dict[str, Updater]]:
        self.critic = build_critic(self.s, self.seed + 2, self.device)
        self.critic_updater = Updater(self.critic, self.s, self.device)
        self.recorder.fact("critic_parameters", self.critic.size())
        return [self.critic], {"critic": self.critic_updater}

    def step(self, step: int) -> None:
        s = self.s
        prompts, ids = self.roll_out(step)
        old_logp = self.old_logprobs(step, prompts, ids)
        ref_logp = self.reference_logprobs(step, prompts, ids)
        with self.stage("reward", step, self.new_tokens):
            rewards = self.rewards(prompts, ids)
        with self.stage("critic_update", step, self.positions, self.critic, self.critic_updater):
            old_values = score_values(self.passes, "values", self.critic, s, ids, prompts.keep, s.critic_micro_batch)
            advantages = generalised_advantages(rewards, old_values)
            returns = advantages + old_values
            advantages = whiten(advantages)

            def value_loss_of(ids, keep, old_values, returns) -> torch.Tensor:
                return clipped_value_loss(values(self.critic, s, ids, keep), old_values, returns)

            rows = [ids, prompts.keep, old_values, returns]
            self.critic_updater.update(self.passes, "critic_update", value_loss_of, rows, s.critic_micro_batch)
        self.update_actor(step, prompts, ids, old_logp, ref_logp, advantages)
        self.sync_weights(step)
