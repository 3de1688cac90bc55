import math

import torch
from fitproof.runner.program import losses, scoring
from fitproof.runner.program.micro_batches import MicroBatches
from fitproof.runner.program.models import build_actor, build_frozen
from fitproof.runner.program.sequences import make_prompts
from program_cases import CPU, TINY, tiny


def test_grpo_loss_equals_an_independent_float64_computation():
    generator = torch.Generator().manual_seed(5)
    logp, old, ref = (torch.randn(6, 9, generator=generator) - 3 for _ in range(3))
    rewards = torch.tensor([0.0, 1.0, 0.5, 0.5, 2.0, 0.1])
    got = losses.policy_loss(logp, old, ref, losses.group_advantages(rewards, 3).unsqueeze(-1))
    total = 0.0
    for i in range(6):
        group = [float(r) for r in rewards[i // 3 * 3 : i // 3 * 3 + 3]]
        mean = sum(group) / 3
        std = math.sqrt(sum((r - mean) ** 2 for r in group) / 2)
        advantage = (float(rewards[i]) - mean) / (std + 1e-6)
        for t in range(9):
            new_, old_, ref_ = float(logp[i, t]), float(old[i, t]), float(ref[i, t])
            ratio = math.exp(new_ - old_)
            clipped = min(max(ratio, 0.8), 1.2)
            divergence = math.exp(ref_ - new_) - (ref_ - new_) - 1
            total += -min(ratio * advantage, clipped * advantage) + 0.04 * divergence
    assert math.isclose(float(got), total / 54, rel_tol=1e-5)


def test_generalised_advantages_equal_the_sum_of_discounted_errors():
    generator = torch.Generator().manual_seed(6)
    rewards, values = torch.randn(3, generator=generator), torch.randn(3, 7, generator=generator)
    got = losses.generalised_advantages(rewards, values)
    for i in range(3):
        v = [float(x) for x in values[i]] + [0.0]
        errors = [(float(rewards[i]) if t == 6 else 0.0) + v[t + 1] - v[t] for t in range(7)]
        for t in range(7):
            expected = sum(0.95 ** (u - t) * errors[u] for u in range(t, 7))
            assert math.isclose(float(got[i, t]), expected, rel_tol=1e-5, abs_tol=1e-6)


def test_clipped_value_loss_equals_an_independent_float64_computation():
    generator = torch.Generator().manual_seed(7)
    new, old, returns = (torch.randn(4, 5, generator=generator) for _ in range(3))
    total = 0.0
    for n, o, g in zip(*(x.flatten().tolist() for x in (new, old, returns)), strict=True):
        clipped = min(max(n, o - 0.2), o + 0.2)
        total += max((n - g) ** 2, (clipped - g) ** 2) / 2
    assert math.isclose(float(losses.clipped_value_loss(new, old, returns)), total / 20, rel_tol=1e-5)


def test_forward_divergence_equals_an_independent_float64_computation():
    generator = torch.Generator().manual_seed(8)
    teacher = torch.randn(2, 3, 40, generator=generator).log_softmax(-1)
    student = torch.randn(2, 3, 40, generator=generator).log_softmax(-1)
    top = teacher.topk(4)
    got = losses.forward_divergence(top.values, student.gather(-1, top.indices))
    total = 0.0
    for i in range(2):
        for t in range(3):
            p = [math.exp(float(x)) for x in top.values[i, t]]
            q = [float(student[i, t, k]) for k in top.indices[i, t]]
            total += sum(x / sum(p) * (math.log(x / sum(p)) - y) for x, y in zip(p, q, strict=True))
    assert math.isclose(float(got), total / 6, rel_tol=1e-5)
    assert float(got) >= 0
    whole = losses.forward_divergence(teacher, teacher)
    assert abs(float(whole)) < 1e-6  # of a distribution from itself


def test_whitened_advantages():
    x = losses.whiten(torch.randn(5, 8) * 3 + 2)
    assert abs(float(x.mean())) < 1e-6
    assert math.isclose(float(x.var()), 1.0, rel_tol=1e-4)


def test_advantages_of_equal_rewards_are_zero():
    assert losses.group_advantages(torch.full((4,), 0.3), 2).tolist() == [0.0] * 4


def test_logits_chunk_changes_neither_log_probabilities_nor_gradients():
    results = []
    for chunk in (0, 7):
        for checkpointing in (False, True):
            s = tiny(logits_chunk=chunk, gradient_checkpointing=checkpointing, adaptation="full")
            model = build_actor(s, 1, CPU)
            model.causal.train()
            prompts = make_prompts(s, 512, 1, 1, CPU)
            response = torch.arange(60).view(6, 10) % 500
            logp = scoring.token_logprobs(model, s, torch.cat([prompts.ids, response], 1), prompts.keep)
            (logp * torch.arange(60).view(6, 10)).mean().backward()
            results.append((logp.detach(), [p.grad for p in model.parameters()]))
    (expected, gradients), *others = results
    for logp, grads in others:
        torch.testing.assert_close(logp, expected)
        torch.testing.assert_close(grads, gradients)


def test_chunks_keep_the_vocabulary_projection_small():
    """Under autograd no float32 tensor of all positions by the vocabulary is saved or made when chunked."""
    s = tiny(logits_chunk=8, adaptation="full", use_kl=False)
    model = build_actor(s, 1, CPU)
    largest = 0

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal largest
            out = func(*args, **(kwargs or {}))
            if isinstance(out, torch.Tensor) and out.ndim == 2 and out.shape[-1] == 512 and out.shape[0] != 64:
                largest = max(largest, out.shape[0])
            return out

    states = torch.randn(60, 64, requires_grad=True)  # the width 64 tells the transposed weight from logits
    with Watch():
        scoring.project_logprobs(model, states, torch.arange(60)[:, None], s.logits_chunk).sum().backward()
    assert largest == 8


def test_score_equals_a_plain_forward_pass():
    for name in TINY:
        s = tiny(model=name)
        model = build_actor(s, 1, CPU)
        prompts = make_prompts(s, 384, 1, 1, CPU)
        ids = torch.cat([prompts.ids, torch.arange(60).view(6, 10)], 1)
        got = scoring.score(MicroBatches(s, CPU), "pass", model, s, ids, prompts.keep, 4)
        keep = torch.cat([prompts.keep, torch.ones(6, 10, dtype=torch.bool)], 1).long()
        with torch.no_grad():
            positions = (keep.cumsum(-1) - 1).clamp(min=0)
            logits = model.causal(input_ids=ids, attention_mask=keep, position_ids=positions).logits
        expected = logits[:, 23:-1].double().log_softmax(-1).gather(-1, ids[:, 24:, None]).squeeze(-1)
        torch.testing.assert_close(got.double(), expected, atol=1e-5, rtol=1e-5)


def test_without_adapter_is_the_base_model():
    s = tiny(reference="copy")
    actor, copy = build_actor(s, 1, CPU), build_frozen(s, s.model_id, 1, CPU)
    prompts = make_prompts(s, 512, 1, 1, CPU)
    ids = torch.cat([prompts.ids, torch.arange(60).view(6, 10)], 1)
    adapted = scoring.score(MicroBatches(s, CPU), "pass", actor, s, ids, prompts.keep, 6)
    with actor.without_adapter():
        base = scoring.score(MicroBatches(s, CPU), "pass", actor, s, ids, prompts.keep, 6)
    torch.testing.assert_close(base, scoring.score(MicroBatches(s, CPU), "pass", copy, s, ids, prompts.keep, 6))
    assert not torch.allclose(adapted, base, atol=1e-6)
    assert actor.trainable()  # disabling for a while leaves the adapter trainable
