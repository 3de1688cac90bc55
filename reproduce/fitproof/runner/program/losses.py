"""The formulas of the recipes, as functions of float32 tensors. No model, no settings."""

import torch

CLIP = 0.2  # epsilon of the clipped ratio
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


def grpo_loss(
    logp: torch.Tensor, old_logp: torch.Tensor, ref_logp: torch.Tensor | None, advantages: torch.Tensor
) -> torch.Tensor:
    """Mean over tokens [b, R] of the clipped policy loss plus beta times the divergence from the reference (if any).

    `advantages` is [b]: one for all tokens of a sequence. Response lengths are equal, so the token mean over the batch
    and the mean of sequence means (DeepSeekMath equation 3) are the same number.
    """
    loss = clipped_policy_loss(logp, old_logp, advantages.unsqueeze(-1))
    if ref_logp is not None:
        loss = loss + KL_WEIGHT * k3_divergence(logp, ref_logp)
    return loss.mean()
