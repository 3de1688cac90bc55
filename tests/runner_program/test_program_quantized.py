"""quantization=nf4: what is stored, that it stays the same model everywhere, and that nothing else changes."""

import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from fitproof.errors import EnvironmentLacks
from fitproof.runner.program import quantized
from fitproof.runner.program.engines.cuda_graph import CudaGraphEngine
from fitproof.runner.program.engines.hf_generate import HfGenerate
from fitproof.runner.program.models import build_actor, build_critic, build_frozen, is_lora, lora_weights, synchronise
from fitproof.runner.program.recorder import CpuMeter, Recorder
from fitproof.runner.program.sequences import make_prompts
from fitproof.schema.models import catalogue, get_model
from fitproof.simulate.tape import Tape
from program_cases import CPU, TINY, facts, run_events, stages, tiny
from torch import nn


def packed_layers(model) -> dict[str, nn.Module]:
    return {n: m for n, m in model.causal.named_modules() if quantized.is_quantized(m)}


def tensors(module: nn.Module) -> list[torch.Tensor]:
    return [module.weight.data, *quantized.scales(module)]


@pytest.mark.parametrize("name", TINY)
def test_the_decoders_linear_layers_are_quantised_and_nothing_else(name):
    plain = build_frozen(tiny(model=name), name, 1, CPU)
    model = build_frozen(tiny(model=name, quantization="nf4"), name, 1, CPU)
    linear = {n for n, m in plain.causal.named_modules() if type(m) is nn.Linear and n != "lm_head"}
    assert packed_layers(model).keys() == linear
    others = {n: p for n, p in model.causal.named_parameters() if n.rpartition(".")[0] not in linear}
    theirs = dict(plain.causal.named_parameters())
    assert others
    assert all(torch.equal(p, theirs[n]) for n, p in others.items())
    assert model.size() == plain.size()
    assert not any(t.is_meta for m in packed_layers(model).values() for t in tensors(m))


def test_the_values_are_those_of_the_unquantised_base_and_of_every_copy():
    s = tiny(quantization="nf4", dtype="bfloat16")
    plain = dict(build_frozen(tiny(dtype="bfloat16"), s.model_id, 1, CPU).causal.named_parameters())
    one, again, other = (packed_layers(build_frozen(s, s.model_id, seed, CPU)) for seed in (1, 1, 2))
    for name, layer in one.items():
        assert all(torch.equal(a, b) for a, b in zip(tensors(layer), tensors(again[name]), strict=True))
        assert not torch.equal(layer.weight, other[name].weight)
        value, weight = quantized.unpacked(layer), plain[f"{name}.weight"]
        assert value.dtype == torch.bfloat16
        blocks = (value - weight).float().abs().view(-1, quantized.BLOCK)
        # Half the widest step between two of the 16 values, of the block's maximum; and what its own rounding adds.
        assert (blocks.amax(1) <= 0.18 * weight.float().abs().view(-1, quantized.BLOCK).amax(1)).all()


def test_the_actors_base_is_the_references():
    s = tiny(quantization="nf4", reference="copy")
    actor, reference = packed_layers(build_actor(s, 1, CPU)), packed_layers(build_frozen(s, s.model_id, 1, CPU))
    found = {name.removesuffix(".base_layer"): layer for name, layer in actor.items()}
    assert found.keys() == reference.keys()
    assert all(torch.equal(a, b) for n in found for a, b in zip(tensors(found[n]), tensors(reference[n]), strict=True))


@pytest.mark.parametrize(("dtype", "width"), [("bfloat16", 2), ("float32", 4)])
def test_stored_bytes_of_the_base(dtype, width):
    s = tiny(quantization="nf4", dtype=dtype)
    layers = packed_layers(build_frozen(s, s.model_id, 1, CPU)).values()
    weights = sum(m.in_features * m.out_features for m in layers)
    stored = sum(t.nbytes for m in layers for t in tensors(m)[:3])
    assert weights * width / stored == pytest.approx(width * 8 / 4.127, rel=0.01)  # 4 + 8/64 + 32/(64 * 256) bits
    assert [[t.nbytes for t in tensors(m)[3:]] for m in layers] == [[4, 64, 1024]] * len(layers)


def test_building_never_holds_the_unquantised_model():
    s = tiny(quantization="nf4")
    tape = Tape(device_type="cpu")
    with tape:
        model = build_frozen(s, s.model_id, 1, CPU)
    held = peak = 0
    sizes = {}
    for event in tape.events:
        if event[0] == "alloc":
            sizes[event[1]] = event[2]
            held += event[2]
            peak = max(peak, held)
        else:
            held -= sizes.pop(event[1])
    largest = max(m.in_features * m.out_features for m in packed_layers(model).values()) * 4
    unquantised = sum(p.nbytes for p in build_frozen(tiny(), s.model_id, 1, CPU).parameters())
    assert peak < held + 2 * largest
    assert peak < 0.75 * unquantised


def test_the_critic_is_not_quantised():
    critic = build_critic(tiny(algorithm="ppo", quantization="nf4"), 1, CPU)
    assert packed_layers(critic) == {}
    assert all(p.requires_grad for p in critic.parameters())


@pytest.mark.parametrize("engine", ["hf_generate", "cuda_graph"])
@pytest.mark.parametrize(
    "given",
    [
        dict(),
        dict(model=TINY[1], reference="copy", gradient_checkpointing=False),
        dict(algorithm="ppo", capture_micro_batches=True, actor_micro_batch=2),
        dict(algorithm="opd", teacher=TINY[0]),
        dict(rollout_weights="copy", parameter_offload=True, reference="copy", empty_cache=True),
    ],
    ids=lambda given: "-".join(map(str, given.values())) or "grpo",
)
def test_a_trial_has_the_stages_and_facts_of_one_without_it(given, engine):
    quantised, plain = (run_events(tiny(engine=engine, quantization=q, **given)) for q in ("nf4", "none"))
    assert quantised[-1]["event"] == "finished"
    assert stages(quantised) == stages(plain)
    assert facts(quantised).keys() == facts(plain).keys()
    fixed = [n for n in facts(plain) if n != "baseline_process_bytes"]
    assert {n: facts(quantised)[n] for n in fixed} == {n: facts(plain)[n] for n in fixed}


@pytest.mark.parametrize("engine", ["hf_generate", "cuda_graph"])
def test_a_separate_teacher_is_quantised_too(monkeypatch, engine):
    teacher = get_model(TINY[1])
    config = {**teacher.config, "vocab_size": get_model(TINY[0]).config["vocab_size"]}
    monkeypatch.setitem(catalogue(), TINY[1], replace(teacher, config=config))
    built = []
    original = quantized.packed
    monkeypatch.setattr(quantized, "packed", lambda m, w: (built.append(m), original(m, w))[1])
    events = run_events(tiny(algorithm="opd", teacher=TINY[1], quantization="nf4", engine=engine))
    assert events[-1]["event"] == "finished"
    layers = {name: get_model(name).config["num_hidden_layers"] for name in TINY}
    assert len(built) == 7 * sum(layers.values())


def greedy(s, model) -> tuple[list, list]:
    prompts = make_prompts(s, 384, 3, 1, CPU)
    ours = CudaGraphEngine(model, s, CPU, Recorder(None, CpuMeter()), sample=False).rollout(prompts)
    return ours.tolist(), HfGenerate(model, s, CPU, sample=False).rollout(prompts).tolist()


@pytest.mark.parametrize("name", TINY)
def test_greedy_equals_generate(name):
    s = tiny(model=name, quantization="nf4", max_num_seqs=4, max_response_length=80)
    model = build_actor(s, 1, CPU)
    with torch.no_grad():
        for p in model.trainable():
            p.mul_(20.0)  # else most tokens repeat the input
    ours, theirs = greedy(s, model)
    assert ours == theirs
    assert len({tuple(row[24:]) for row in ours}) > 1


def test_gradients_are_those_of_the_unpacked_weights():
    s = tiny(quantization="nf4", gradient_checkpointing=False)
    actor = build_actor(s, 1, CPU)
    plain = build_actor(tiny(gradient_checkpointing=False), 1, CPU)
    theirs = dict(plain.causal.named_modules())
    with torch.no_grad():
        for name, layer in packed_layers(actor).items():
            theirs[name].weight.copy_(quantized.unpacked(layer))
    for model in (actor, plain):
        model.causal.eval()  # and still gives gradients
        model.causal(input_ids=torch.arange(3, 40)[None]).logits.float().pow(2).mean().backward()
    for p, q in zip(actor.trainable(), plain.trainable(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)


def test_offloaded_weights_and_scales_come_back_equal():
    model = build_actor(tiny(quantization="nf4"), 1, CPU)
    before = [t.clone() for m in packed_layers(model).values() for t in tensors(m)]
    places = {t.data_ptr() for m in packed_layers(model).values() for t in tensors(m)}
    for _ in range(2):
        model.offload()
        away = {t.data_ptr() for m in packed_layers(model).values() for t in tensors(m)}
        assert not away & places
        model.load()
        assert not away & {t.data_ptr() for m in packed_layers(model).values() for t in tensors(m)}
    after = [t for m in packed_layers(model).values() for t in tensors(m)]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_a_synchronised_copy_holds_the_merged_weights_at_its_old_addresses():
    s = tiny(quantization="nf4", rollout_weights="copy")
    actor, copy = build_actor(s, 1, CPU), build_frozen(s, s.model_id, 1, CPU)
    with torch.no_grad():
        for p in actor.trainable():
            p.mul_(20.0)
    places = [t.data_ptr() for m in packed_layers(copy).values() for t in tensors(m)]
    synchronise(copy, actor)
    assert [t.data_ptr() for m in packed_layers(copy).values() for t in tensors(m)] == places
    layers = dict(actor.causal.named_modules())
    for name, target in packed_layers(copy).items():
        layer = layers[name]
        assert is_lora(layer)
        a, b, scale = lora_weights(layer)
        wanted = quantized.unpacked(layer.base_layer) + scale * b @ a
        off = (quantized.unpacked(target) - wanted).abs().view(-1, quantized.BLOCK)
        assert (off.amax(1) <= 0.18 * wanted.abs().view(-1, quantized.BLOCK).amax(1)).all()
        assert off.mean() < (quantized.unpacked(layer.base_layer) - wanted).abs().mean()


def test_without_bitsandbytes_the_command_that_installs_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    for given in (dict(quantization="nf4"), dict(optimizer="adamw_8bit")):
        with pytest.raises(EnvironmentLacks) as caught:
            run_events(tiny(**given))
        ((name, value),) = given.items()
        assert f"{name}={value}" in str(caught.value)
        assert "pip install -e '.[nf4]'" in str(caught.value)
        assert caught.value.exit_code == 3


@pytest.mark.parametrize("code", [
    "from fitproof.runner import stack",
    "from program_cases import *; run_events(tiny(total_training_steps=1)); from peft import import_utils",
])  # fmt: skip
def test_settings_that_need_no_bitsandbytes_do_not_import_it(code):
    after = "; import sys; assert 'bitsandbytes' not in sys.modules"
    script = f"import sys; sys.path.insert(0, 'tests/runner_program'); {code}{after}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_trial_without_it_leaves_the_next_one_free_to_use_it():
    code = (
        "import sys; sys.path.insert(0, 'tests/runner_program'); from program_cases import *; "
        "print([run_events(tiny(total_training_steps=1, quantization=q))[-1]['event'] for q in ('none', 'nf4')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("['finished', 'finished']", "")


def test_its_import_loads_no_compiler_and_leaves_torch_as_it_was():
    code = (
        "import sys, torch; compiler = torch.compile; from fitproof.runner import bnb; bnb.library('a test'); "
        "assert torch.compile is compiler; assert 'torch._inductor.compile_fx' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
