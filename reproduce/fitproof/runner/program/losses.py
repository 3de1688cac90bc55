"""The formulas of the recipes, as functions of float32 tensors. No model, no settings."""

import torch

CLIP = 0.2  # epsilon of the clipped ratio
GAMMA, LAMBDA = 1.0, 0.95  # ppo: discount, and decay of the advantage estimator
KL_WEIGHT = 0.04  # beta of GRPO (DeepSeekMath, section 4.2)


def group_advantages(rewards: torch.Tensor, group: int) -> torch.Tensor:
    """GRPO advantages [N] of rewards [N], neighbours of `group` belonging to one prompt.

    A_i = (r_i - mean(r)) / (std(r) + 1e-6) within the group, std unbiased.
    Source: Shao et al., DeepSeekMath, arXiv 2402.03300, section 4.1.2 (outcome supervision).
    """
    r = rewards.view(-1, group)
    return ((r - r.mean(-1, keepdim=True)) / (r.std(-1, keepdim=True) + 1e-6)).view(-1)


def clipped_policy_loss(logp: torch.Tensor, old_logp: torch.Tensor, advantages: torch.Tensor) -> torch.Tensor:
    """Token losses [b, R] = -min(rho A, clip(rho, 1 - eps, 1 + eps) A), rho = exp(logp - old_logp), A [b, 1] or [b, R].

    Source: Schulman et al., Proximal Policy Optimization Algorithms, arXiv 1707.06347, equation 7.
    """
    ratio = torch.exp(logp - old_logp)
    return -torch.minimum(ratio * advantages, ratio.clamp(1.0 - CLIP, 1.0 + CLIP) * advantages)


def k3_divergence(logp: torch.Tensor, ref_logp: torch.Tensor) -> torch.Tensor:
    """Token estimates [b, R] of KL(policy || reference) = exp(d) - d - 1, d = ref_logp - logp; never negative.

    Source: Schulman, Approximating KL Divergence (2020), estimator k3; DeepSeekMath equation 4.
    """
    delta = ref_logp - logp
    return torch.exp(delta) - delta - 1.0


def policy_loss(
    logp: torch.Tensor, old_logp: torch.Tensor, ref_logp: torch.Tensor | None, advantages: torch.Tensor
) -> torch.Tensor:
    """Mean over tokens [b, R] of the clipped policy loss plus beta times the divergence from the reference (if any).

    `advantages` is [b, 1] (grpo: one for all tokens of a sequence) or [b, R] (ppo). Response lengths are equal, so the
    token mean over the batch and the mean of sequence means (DeepSeekMath equation 3) are the same number.
    """
    loss = clipped_policy_loss(logp, old_logp, advantages)
    if ref_logp is not None:
        loss = loss + KL_WEIGHT * k3_divergence(logp, ref_logp)
    return loss.mean()


def generalised_advantages(rewards: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Advantages [N, R] of rewards [N], given at the last token, and values [N, R] of the state before each token.

    A_t = delta_t + gamma lambda A_{t+1}, delta_t = r_t + gamma V_{t+1} - V_t, V after the end 0.
    Source: Schulman et al., Generalized Advantage Estimation, arXiv 1506.02438, equation 16.
    """
    last = values.shape[1] - 1
    advantages = torch.empty_like(values)
    following = rewards - values[:, last]
    advantages[:, last] = following
    for t in range(last - 1, -1, -1):
        following = GAMMA * values[:, t + 1] - values[:, t] + GAMMA * LAMBDA * following
        advantages[:, t] = following
    return advantages


def whiten(x: torch.Tensor) -> torch.Tensor:
    """Mean 0 and variance 1 over all elements."""
    return (x - x.mean()) * torch.rsqrt(x.var() + 1e-8)


def clipped_value_loss(values: torch.Tensor, old_values: torch.Tensor, returns: torch.Tensor) -> torch.Tensor:
    """Mean over [b, R] of max((V - G)^2, (clip(V, V_old - eps, V_old + eps) - G)^2) / 2.

    Source: the reference implementation of PPO; Huang et al., The 37 Implementation Details of PPO (2022), detail 9.
    """
    clipped = torch.clamp(values, old_values - CLIP, old_values + CLIP)
    return 0.5 * torch.maximum((values - returns) ** 2, (clipped - returns) ** 2).mean()


def forward_divergence(teacher_logp: torch.Tensor, student_logp: torch.Tensor) -> torch.Tensor:
    """Mean over tokens of KL(teacher || student) = sum_k p_k (log p_k - log q_k), from [b, R, k] log-probabilities.

    p is the teacher's distribution over its k most likely tokens, renormalised to sum to 1; q the student's over the
    whole vocabulary at the same tokens. So it is a divergence between two distributions, hence never negative.
    """
    log_p = torch.log_softmax(teacher_logp, dim=-1)
    return (log_p.exp() * (log_p - student_logp)).sum(-1).mean()
