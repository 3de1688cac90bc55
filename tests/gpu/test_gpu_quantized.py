"""nf4 and 8-bit optimizers on a CUDA device: `pytest -m gpu tests/gpu`."""

import gc
import io
import json
import sys
from pathlib import Path

import pytest
import torch
from fitproof.errors import EnvironmentLacks
from fitproof.runner.program import device as device_ops
from fitproof.runner.program import quantized, trial
from fitproof.runner.program.engines.cuda_graph import CudaGraphEngine
from fitproof.runner.program.engines.hf_generate import HfGenerate
from fitproof.runner.program.models import build_actor, build_frozen
from fitproof.runner.program.optimizers import own_state
from fitproof.runner.program.recipes.grpo import Grpo
from fitproof.runner.program.recorder import CudaMeter, Recorder
from fitproof.runner.program.sequences import make_prompts
from fitproof.runner.spawn import Spawner
from fitproof.schema.models import get_model
from fitproof.schema.settings import Settings, resolve
from fitproof.simulate.executor import IDLE, simulate
from fitproof.simulate.profile import load_profile
from fitproof.simulate.replay import replay

sys.path.insert(0, str(Path(__file__).parent.parent / "runner_program"))
from program_cases import events_of, write_trial

pytest.importorskip("bitsandbytes")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
GPU = torch.device("cuda", 0)


def settings(**given):
    """Qwen3-0.6B: the kernels for its shapes are those of larger models; tiny ones get others."""
    lengths = dict(workload="custom", max_prompt_length=64, max_response_length=40, train_batch_size=3, rollout_n=2,
                   max_num_seqs=4, actor_micro_batch=2, micro_batch_coverage="edges")  # fmt: skip
    return resolve(**{"model": "Qwen/Qwen3-0.6B", "quantization": "nf4", **lengths, **given})


def recorder() -> Recorder:
    return Recorder(io.StringIO(), CudaMeter(GPU))


def events(s) -> list[dict]:
    out = io.StringIO()
    trial.run(s, seed=1, device=GPU, recorder=Recorder(out, CudaMeter(GPU)))
    return [json.loads(line) for line in out.getvalue().splitlines()]


def ends(found: list[dict]) -> dict[tuple[str, int], dict]:
    return {(e["stage"], e["step"]): e for e in found if e["event"] == "stage_end"}


@pytest.fixture(scope="module")
def spawner():
    spawner = Spawner()
    yield spawner
    spawner.close()


@pytest.fixture(autouse=True)
def _clean_device():
    gc.collect()
    torch.cuda.empty_cache()


@pytest.mark.parametrize("engine", ["cuda_graph", "hf_generate"])
@pytest.mark.parametrize(
    "given",
    [
        dict(optimizer="adamw_8bit"),
        dict(algorithm="opd", teacher="Qwen/Qwen3-1.7B", lora_targets="attention"),
        dict(rollout_weights="copy", parameter_offload=True, optimizer_offload=True, optimizer="adamw_8bit"),
        dict(capture_micro_batches=True, gradient_checkpointing=False),
    ],
    ids=lambda given: "-".join(map(str, given.values())),
)
def test_a_whole_trial(engine, given):
    found = events(settings(engine=engine, total_training_steps=3, **given))
    assert found[-1]["event"] == "finished"
    after = [e["allocated_bytes"] for e in found if e["event"] == "stage_end" and e["stage"] == "actor_update"]
    assert after[1] == after[2]


def test_the_base_takes_a_quarter():
    plain, packed = (ends(events(settings(quantization=q, total_training_steps=1))) for q in ("none", "nf4"))
    linear = 28 * (1024 * (2048 + 2 * 1024 + 3 * 3072) + 2048 * 1024)
    saved = plain["initializing", 0]["allocated_bytes"] - packed["initializing", 0]["allocated_bytes"]
    assert saved == pytest.approx(linear * (2 - 4.127 / 8), rel=0.01)
    assert plain.keys() == packed.keys()
    # Built layer by layer: nothing like the unquantised model was ever there.
    assert packed["initializing", 0]["peak_allocated_bytes"] < plain["initializing", 0]["allocated_bytes"]


def test_every_copy_of_the_base_is_equal():
    s = settings()
    models = [build_frozen(s, s.model_id, 7, GPU), build_actor(s, 7, GPU)]
    layers = [[m for m in model.causal.modules() if quantized.is_quantized(m)] for model in models]
    assert len(layers[0]) == len(layers[1]) == 28 * 7
    for one, other in zip(*layers, strict=True):
        tensors = [[m.weight.data, *quantized.scales(m)] for m in (one, other)]
        assert all(torch.equal(a, b) for a, b in zip(*tensors, strict=True))


def test_captured_greedy_decoding_equals_generate():
    s = settings(dtype="float32", free_cache_engine=False)
    actor = build_actor(s, 1, GPU)
    with torch.no_grad():
        for p in actor.trainable():
            p.mul_(20.0)
    engine = CudaGraphEngine(actor, s, GPU, recorder(), sample=False)
    for step in (1, 2):  # the second rollout replays the first one's graphs
        prompts = make_prompts(s, 384, 3, step, GPU)
        assert engine.rollout(prompts).tolist() == HfGenerate(actor, s, GPU, sample=False).rollout(prompts).tolist()


def test_offloaded_weights_leave_the_device_and_come_back_equal():
    others = torch.cuda.memory_allocated(GPU)  # workspaces of earlier tests
    model = build_actor(settings(), 1, GPU)
    layers = [m for m in model.causal.modules() if quantized.is_quantized(m)]
    before = [t.cpu() for m in layers for t in (m.weight.data, *quantized.scales(m))]
    held = torch.cuda.memory_allocated(GPU) - others
    model.offload()
    assert torch.cuda.memory_allocated(GPU) - others < held / 100
    model.load()
    after = [t for m in layers for t in (m.weight.data, *quantized.scales(m))]
    assert all(t.device.type == "cuda" for t in after)
    assert all(torch.equal(a, b.cpu()) for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("optimizer", ["adamw", "adamw_8bit"])
def test_state_bytes_of_all_parameters(optimizer):
    s = settings(quantization="none", adaptation="full", use_kl=False, optimizer=optimizer)
    recipe = Grpo(s, seed=1, device=GPU, recorder=recorder())
    recipe.step(1)
    held = {v.data_ptr(): v.nbytes for _, _, v in own_state(recipe.updater.optimizer) if torch.is_tensor(v) and v.ndim}
    per_parameter = 4.0 if optimizer == "adamw" else 2 + 8 / 256
    assert sum(held.values()) == pytest.approx(recipe.actor.size() * per_parameter, rel=0.001)


def test_paged_state_is_outside_of_the_allocator():
    given = dict(quantization="none", adaptation="full", use_kl=False)
    ordinary, paged = (ends(events(settings(optimizer=o, **given))) for o in ("adamw_8bit", "paged_adamw_8bit"))
    saved = ordinary["actor_update", 2]["allocated_bytes"] - paged["actor_update", 2]["allocated_bytes"]
    assert saved == pytest.approx(2 * get_model("Qwen/Qwen3-0.6B").parameters, rel=0.001)


def test_paging_is_refused_on_a_card_with_too_little_free(monkeypatch):
    monkeypatch.setattr(device_ops, "free_bytes", lambda device: 2**31)
    with pytest.raises(EnvironmentLacks, match="a quarter"):
        events(settings(quantization="none", adaptation="full", optimizer="paged_adamw_8bit"))


@pytest.mark.parametrize(
    "given",
    [
        dict(),
        dict(optimizer="adamw_8bit", gradient_checkpointing=False, actor_micro_batch=1),
        dict(rollout_weights="copy", parameter_offload=True),
        dict(quantization="none", adaptation="full", use_kl=False, optimizer="adamw_8bit"),
        dict(quantization="none", adaptation="full", use_kl=False, optimizer="paged_adamw_8bit"),
        dict(algorithm="opd", teacher="Qwen/Qwen3-1.7B"),
    ],
    ids=lambda given: "-".join(map(str, given.values())) or "nf4",
)
def test_the_dry_run_allocates_what_the_card_does(tmp_path, spawner, given):
    """Peaks of allocated bytes of every stage, of a process of its own, as workspaces outlive what made them."""
    given = dict(model="Qwen/Qwen3-0.6B", quantization="nf4", dtype="bfloat16", max_response_length=40) | given
    folder = write_trial(tmp_path / "hand" / ("0" * 16) / "attempt-1", **given)
    record = json.loads((folder / "trial.json").read_text()) | {"device_kind": "cuda"}
    (folder / "trial.json").write_text(json.dumps(record))
    ended = spawner.run(folder, time_limit_seconds=120, on_start=lambda pid: None, stop=lambda: False)
    assert ended.exit_code == 0, (folder / "stderr.log").read_text()[-3000:]
    measured = ends(events_of(folder))
    profile = load_profile("h200")
    run = replay(simulate(Settings(**record["settings"]), profile).events, placement=profile.placement)
    simulated = {m.stage: m for m in run.stages if m.stage is not None and m.stage[0] != IDLE}
    assert measured.keys() == simulated.keys()
    off = {s: (e["peak_allocated_bytes"], simulated[s].peak_allocated) for s, e in measured.items()}
    assert {s: pair for s, pair in off.items() if abs(pair[0] - pair[1]) > 0.001 * pair[0]} == {}
