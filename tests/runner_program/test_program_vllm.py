"""The vllm engine against a fake of vLLM 0.33.0's interface (fake_vllm/vllm.py). Nothing of vLLM itself runs here."""

import io
import json
import sys
from pathlib import Path

import pytest
import torch
from fitproof.errors import EnvironmentLacks, SettingsError
from fitproof.runner import child
from fitproof.runner.diagnosis.attempt import diagnose_attempt
from fitproof.runner.guard import refuse_missing_engine
from fitproof.runner.program import device as device_ops
from fitproof.runner.program.engines import vllm as engine_module
from fitproof.runner.program.engines.hf_generate import HfGenerate
from fitproof.runner.program.engines.vllm import VllmEngine
from fitproof.runner.program.models import build_actor, build_frozen, merged_weights, synchronise
from fitproof.runner.program.recorder import CpuMeter, Recorder
from fitproof.runner.program.sequences import make_prompts
from program_cases import CPU, TINY, events_of, facts, run_events, stages, tiny, write_trial

TOKEN_BYTES = 2 * 2 * 2 * 16 * 4  # of the tiny models: keys and values, layers, heads, width, float32


@pytest.fixture
def fake(monkeypatch, tmp_path):
    """The fake, where `import vllm` finds it; temporary files go to tmp_path/tmp."""
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "1")  # as it was, after the test
    monkeypatch.syspath_prepend(Path(__file__).parent / "fake_vllm")
    monkeypatch.delitem(sys.modules, "vllm", raising=False)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(engine_module.tempfile, "tempdir", str(tmp_path / "tmp"))
    import vllm

    yield vllm
    sys.modules.pop("vllm", None)


def with_vllm(**given):
    return tiny(**{"engine": "vllm", "kv_reservation": "0.5", **given})


def loud(model):
    with torch.no_grad():
        for p in (p for layer in model.trunk.layers for p in layer.parameters() if p.requires_grad and p.ndim == 2):
            p.mul_(20.0 if model.adapter is not None else 5.0)
    return model


def greedy(model, s) -> VllmEngine:
    return VllmEngine(model, s, CPU, Recorder(io.StringIO(), CpuMeter()), sample=False)


@pytest.mark.parametrize("model", TINY)
@pytest.mark.parametrize("adaptation", ["lora", "full"])
@pytest.mark.parametrize("sleeps", [True, False])
def test_rollouts_follow_the_actors_weights_through_updates(fake, model, adaptation, sleeps):
    s = with_vllm(model=model, adaptation=adaptation, free_cache_engine=sleeps, max_response_length=40)
    actor = build_actor(s, 1, CPU)
    engine = greedy(actor, s)
    seen = []
    for step in (1, 2):
        engine.load_weights(merged_weights(actor))
        prompts = make_prompts(s, 384, 3, step, CPU)
        seen.append(engine.rollout(prompts).tolist())
        assert seen[-1] == HfGenerate(actor, s, CPU, sample=False).rollout(prompts).tolist()
        loud(actor)
    (llm,) = [made for made in fake.made if made is engine._llm]
    one = ["apply_model", "generate"]
    asleep = ["wake_up ['weights']", "apply_model", "wake_up ['kv_cache']", "generate", "sleep 2"]
    assert llm.calls == ([*one, "sleep 2", *asleep] if sleeps else [*one, *one])
    assert llm.arguments["enable_sleep_mode"] is sleeps


def test_merged_weights_are_the_rollout_copys(fake):
    s = with_vllm(adapter_dtype="bfloat16", dtype="bfloat16")
    actor, plain = loud(build_actor(s, 1, CPU)), build_frozen(s, s.model_id, 1, CPU)
    synchronise(plain, actor)
    merged = {name: tensor.clone() for name, tensor in merged_weights(actor)}
    expected = dict(plain.causal.named_parameters())
    assert merged.keys() == expected.keys()
    assert [name for name in merged if not torch.equal(merged[name], expected[name])] == []


@pytest.mark.parametrize("algorithm", ["grpo", "ppo", "opd"])
@pytest.mark.parametrize("adaptation", ["lora", "full"])
def test_every_recipe_refreshes_the_weights_after_every_update(fake, algorithm, adaptation):
    given = dict(teacher=TINY[0]) if algorithm == "opd" else {}
    s = with_vllm(algorithm=algorithm, adaptation=adaptation, parameter_offload=True, **given)
    events = run_events(s)
    assert events[-1]["event"] == "finished"
    for step in (1, 2):
        names = [name for name, at in stages(events) if at == step]
        assert (names[0], names[-1]) == ("rollout", "weight_sync")
    assert fake.made[-1].calls.count("apply_model") == 3  # before the first step and after each
    assert facts(events)["kv_pool_bytes"] == 1000 * fake.BLOCK_SIZE * TOKEN_BYTES


def test_what_vllm_is_told(fake, tmp_path):
    s = with_vllm(kv_reservation="0.45", max_num_seqs=4)
    engine = greedy(build_actor(s, 1, CPU), s)
    llm = engine._llm
    assert llm.gpu_memory_utilization == 0.45
    assert (llm.arguments["max_num_seqs"], llm.arguments["max_model_len"]) == (4, s.sequence_length)
    assert llm.arguments["enable_prefix_caching"] is False
    assert llm.files == ["config.json"]  # no weights on the disk
    assert llm.config["architectures"] == ["Qwen3ForCausalLM"]
    assert llm.config.get("eos_token_id") is None
    assert list((tmp_path / "tmp").iterdir()) == []  # and nothing of it stays


def test_the_reservation_is_of_the_capacity_not_of_the_card(fake, monkeypatch):
    monkeypatch.setattr(device_ops, "device_total_bytes", lambda device: 128 * 2**30)
    s = with_vllm(kv_reservation="0.5", capacity_mib=16 * 1024)
    assert greedy(build_actor(s, 1, CPU), s)._llm.gpu_memory_utilization == 0.0625
    s = with_vllm(kv_reservation="0.5")
    assert greedy(build_actor(s, 1, CPU), s)._llm.gpu_memory_utilization == 0.5


def test_it_samples_from_the_whole_distribution_at_the_forced_length(fake):
    s = with_vllm()
    engine = VllmEngine(build_actor(s, 1, CPU), s, CPU, Recorder(None, CpuMeter()))
    wanted = fake.SamplingParams(temperature=1.0, top_p=1.0, top_k=0, max_tokens=10, ignore_eos=True, detokenize=False)
    assert engine._sampling == wanted


def test_starting_it_leaves_the_trials_random_numbers_alone(fake):
    s = with_vllm()
    actor = build_actor(s, 1, CPU)
    torch.manual_seed(7)
    expected = torch.get_rng_state()
    greedy(actor, s)
    assert torch.equal(torch.get_rng_state(), expected)


def test_a_rollout_after_sleep_without_weights_is_an_error(fake):
    s = with_vllm()
    actor = build_actor(s, 1, CPU)
    engine = greedy(actor, s)
    engine.load_weights(merged_weights(actor))
    prompts = make_prompts(s, 384, 3, 1, CPU)
    engine.rollout(prompts)
    with pytest.raises(RuntimeError, match="none were loaded since"):
        engine.rollout(prompts)


def test_vllms_refusal_of_a_full_card_is_device_memory(fake, tmp_path, monkeypatch):
    text = ("Free memory on device cuda:0 (9.1/15.99 GiB) on startup is less than desired GPU memory utilization "
            "(0.9, 14.39 GiB). Decrease GPU memory utilization.")  # fmt: skip

    def refuse(self, *_, **__):
        raise ValueError(text)

    monkeypatch.setattr(fake.LLM, "__init__", refuse)
    folder = write_trial(tmp_path / "a", engine="vllm", kv_reservation="0.9")
    assert child.main(folder) == 10
    (found,) = (e for e in events_of(folder) if e["event"] == "failure")
    diagnosis = diagnose_attempt(
        exception_types=found["exception_types"], message=found["message"], failure_stage=found["stage"],
        exit_code=10, signal=None, timed_out=False, kernel_oom=None, last_stage=None, text="",
    )  # fmt: skip
    assert (diagnosis.failure_class, diagnosis.stage) == ("device_memory", "initializing")


def test_without_vllm_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", None)
    for call in (lambda: refuse_missing_engine(with_vllm()), lambda: run_events(with_vllm())):
        with pytest.raises(EnvironmentLacks, match=r"pip install 'vllm>=0\.33'") as refused:
            call()
        assert refused.value.exit_code == 3


def test_a_trial_that_lacks_vllm_all_the_same_fails_for_a_dependency(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "vllm", None)
    folder = write_trial(tmp_path / "a", engine="vllm", kv_reservation="0.9")
    assert child.main(folder) == 10
    (found,) = (e for e in events_of(folder) if e["event"] == "failure")
    diagnosis = diagnose_attempt(
        exception_types=found["exception_types"], message=found["message"], failure_stage=found["stage"],
        exit_code=10, signal=None, timed_out=False, kernel_oom=None, last_stage=None, text="",
    )  # fmt: skip
    assert diagnosis.failure_class == "dependency", json.dumps(found)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (dict(rollout_weights="shared"), "rollout_weights=copy"),
        (dict(kv_reservation=None), "kv_reservation"),
        (dict(quantization="nf4"), "quantization=none"),
        (dict(allocator="expandable_segments"), "allocator=default"),
    ],
)
def test_settings_that_vllm_cannot_have(given, words):
    with pytest.raises(SettingsError, match=words):
        with_vllm(**given)


def test_vllm_means_a_copy_of_the_weights():
    assert with_vllm().rollout_weights == "copy"
    assert with_vllm(allocator="expandable_segments", free_cache_engine=False).rollout_weights == "copy"
    assert tiny().rollout_weights == "shared"
