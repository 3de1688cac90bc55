"""Group relative policy optimisation (Shao et al., DeepSeekMath, arXiv 2402.03300).

Per step: roll out rollout_n responses per prompt, score them under the old policy and (with use_kl) the reference,
verify, normalise rewards within each group, and take one optimizer step on the clipped loss.
"""

from ..losses import group_advantages
from .policy import PolicyRecipe


class Grpo(PolicyRecipe):
    def step(self, step: int) -> None:
        s = self.s
        prompts, ids = self.roll_out(step)
        old_logp = self.old_logprobs(step, prompts, ids)
        ref_logp = self.reference_logprobs(step, prompts, ids)
        with self.stage("reward", step, self.new_tokens):
            advantages = group_advantages(self.rewards(prompts, ids), s.rollout_n).unsqueeze(-1)
        self.update_actor(step, prompts, ids, old_logp, ref_logp, advantages)
        self.sync_weights(step)
