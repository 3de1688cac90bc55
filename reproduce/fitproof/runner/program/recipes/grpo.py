"""Group relative policy optimisation (Shao et al., DeepSeekMath, arXiv 2402.03300).

Per step: roll out rollout_n responses per prompt, score them under the old policy and (with use_kl) the reference,
verify, normalise rewards within each group, and take one optimizer step on the clipped loss.
"""

import torch

from ..losses import group_advantages, policy_loss
from ..scoring import token_logprobs
from .policy import PolicyRecipe


class Grpo(PolicyRecipe):
    def step(self, step: int) -> None:
        s = self.s
        prompts, ids = self.roll_out(step)
        old_logp = self.old_logprobs(step, prompts, ids)
        ref_logp = self.reference_logprobs(step, prompts, ids)
        with self.stage("reward", step, self.new_tokens):
            advantages = group_advantages(self.rewards(prompts, ids), s.rollout_n).unsqueeze(-1)
        with self.stage("actor_update", step, self.positions, self.actor, self.updater):

            def loss_of(rows: slice) -> torch.Tensor:
                logp = token_logprobs(self.actor, s, ids[rows], prompts.keep[rows])
                return policy_loss(logp, old_logp[rows], None if ref_logp is None else ref_logp[rows], advantages[rows])

            self.updater.update(s.rollout_batch, s.actor_micro_batch, loss_of)
        self.sync_weights(step)
