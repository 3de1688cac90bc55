from unittest.mock import patch

import pytest
import torch
from fitproof.runner.program.micro_batches import MicroBatches
from fitproof.runner.program.models import build_actor, build_frozen, is_lora
from fitproof.runner.program.prompts import make_tasks, score_response
from fitproof.runner.program.residency import Residency
from fitproof.runner.program.sequences import attention_mask, make_prompts
from fitproof.runner.program.updates import Updater
from fitproof.schema.models import Model
from program_cases import CPU, TINY, tiny


def test_weights_are_a_function_of_the_seed():
    s = tiny()
    one, again, other = (build_actor(s, seed, CPU).causal.state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(one[k], again[k]) for k in one)
    assert any(not torch.equal(one[k], other[k]) for k in one)


@pytest.mark.parametrize("name", TINY)
def test_building_leaves_nothing_on_the_meta_device_and_ties_the_head(name):
    model = build_frozen(tiny(model=name), name, 1, CPU)
    assert not any(t.is_meta for t in (*model.causal.parameters(), *model.causal.buffers()))
    assert (model.head.weight is model.trunk.embed_tokens.weight) == model.config.tie_word_embeddings
    assert model.head.weight.std().item() == pytest.approx(0.02, rel=0.1)


@pytest.mark.parametrize(
    ("base", "adapter"), [("bfloat16", "float32"), ("bfloat16", "bfloat16"), ("float32", "float16")]
)
def test_adapter_dtype(base, adapter):
    model = build_actor(tiny(dtype=base, adapter_dtype=adapter), 1, CPU)
    assert {p.dtype for p in model.trainable()} == {getattr(torch, adapter)}
    assert {p.dtype for p in model.parameters() if not p.requires_grad} == {getattr(torch, base)}
    assert all(p.abs().sum() > 0 for p in model.trainable())


def test_targets_of_a_fused_architecture():
    s = tiny(model="microsoft/Phi-4-mini-instruct", lora_targets="all_linear")
    small = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=1, num_attention_heads=4, vocab_size=400,
                 num_key_value_heads=2, pad_token_id=0, bos_token_id=1, eos_token_id=2)  # fmt: skip
    with patch("fitproof.runner.program.models.get_model", return_value=Model("a/b", "x", "mit", "phi3", None, small)):
        model = build_actor(s, 1, CPU)
    adapted = {n.rsplit(".", 1)[-1] for n, m in model.causal.named_modules() if is_lora(m)}
    assert adapted == {"qkv_proj", "o_proj", "gate_up_proj", "down_proj"}


def test_offloaded_parameters_come_back_equal():
    model = build_actor(tiny(adaptation="full"), 1, CPU)
    before = [p.detach().clone() for p in model.parameters()]
    for _ in range(2):
        model.offload()
        model.load()
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert model.head.weight is model.trunk.embed_tokens.weight
    assert model.moves == 2


@pytest.mark.parametrize("offload", [False, True])
def test_offloading_changes_no_result(offload):
    s = tiny(adaptation="full", use_kl=False, parameter_offload=offload, optimizer_offload=offload)
    model = build_actor(s, 1, CPU)
    updater = Updater(model, s, CPU)
    residency = Residency(s, CPU, [model], [updater])
    for _ in range(3):
        residency.require(model, updater)
        updater.update(
            MicroBatches(s, CPU), "pass",
            lambda x: sum(p.float().pow(2).sum() for p in model.trainable()) * (1 + x[0]), [torch.arange(4)], 2,
        )  # fmt: skip
        residency.require()
    residency.require(model)
    got = torch.cat([p.detach().flatten() for p in model.parameters()])
    reference = build_actor(s, 1, CPU)
    optimizer = torch.optim.AdamW(reference.trainable(), lr=1e-5, weight_decay=0.0)
    for _ in range(3):
        (sum(p.float().pow(2).sum() for p in reference.trainable()) * 2).backward()
        torch.nn.utils.clip_grad_norm_(reference.trainable(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    torch.testing.assert_close(got, torch.cat([p.detach().flatten() for p in reference.parameters()]))


def test_prompts_are_deterministic_distinct_and_padded_on_the_left():
    s = tiny(max_prompt_length=64, train_batch_size=20)
    first, again, later = (make_prompts(s, 512, 7, step, CPU) for step in (1, 1, 2))
    assert first.ids.tolist() == again.ids.tolist()
    rows = {tuple(r) for p in (first, later) for r in p.ids.tolist()}
    assert len(rows) == 40
    assert first.ids.shape == first.keep.shape == (40, 64)
    assert len(set(first.keep.sum(-1).tolist())) > 3
    assert (first.keep[:, 1:] >= first.keep[:, :-1]).all()
    assert ((first.ids != 0) == first.keep).all()
    assert make_prompts(tiny(padding="none"), 512, 7, 1, CPU).keep.all()


def test_the_verifier_rewards_the_answer():
    (task,) = make_tasks(tiny(), 512, seed=1, start=0, count=1)
    right = [b + 3 for b in f"It is {task.answer}.".encode()]
    assert score_response(task, right) > 1.0 > score_response(task, [70, 71, 511, 0])


def test_mask_hides_padding_and_the_future_and_never_a_whole_row():
    s = tiny()
    keep = torch.tensor([[False, False, True]])
    assert attention_mask(s, keep, 4, torch.float32)[0, 0].int().tolist() == [
        [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1],
    ]  # fmt: skip
    eager = attention_mask(tiny(attn_implementation="eager"), keep, 4, torch.bfloat16)
    assert eager.dtype == torch.bfloat16
    assert ((eager == 0) == attention_mask(s, keep, 4, torch.float32)).all()
    assert attention_mask(tiny(padding="none"), keep, 4, torch.float32) is None
