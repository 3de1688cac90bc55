"""The trial program on a CUDA device: `pytest -m gpu tests/gpu`."""

import gc
import io
import json

import pytest
import torch
from fitproof.runner.program import trial
from fitproof.runner.program.engines.cuda_graph import CudaGraphEngine
from fitproof.runner.program.engines.hf_generate import HfGenerate
from fitproof.runner.program.failures import describe_failure
from fitproof.runner.program.models import build_actor
from fitproof.runner.program.recorder import CudaMeter, Recorder
from fitproof.runner.program.sequences import make_prompts
from fitproof.schema.settings import resolve

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
GPU = torch.device("cuda", 0)


def settings(**given):
    lengths = dict(workload="custom", max_prompt_length=64, max_response_length=150, train_batch_size=3, rollout_n=2,
                   max_num_seqs=4, actor_micro_batch=4)  # fmt: skip
    return resolve(**{"model": "fitproof/tiny-qwen3", "dtype": "float32", **lengths, **given})


def events(s) -> list[dict]:
    out = io.StringIO()
    trial.run(s, seed=1, device=GPU, recorder=Recorder(out, CudaMeter(GPU)))
    return [json.loads(line) for line in out.getvalue().splitlines()]


@pytest.fixture(autouse=True)
def _clean_device():
    gc.collect()
    torch.cuda.empty_cache()


@pytest.mark.parametrize("model", ["fitproof/tiny-qwen3", "fitproof/tiny-llama"])
def test_captured_greedy_decoding_equals_generate(model):
    s = settings(model=model, free_cache_engine=False)
    actor = build_actor(s, 1, GPU)
    with torch.no_grad():
        for p in actor.trainable():
            p.mul_(20.0)
    engine = CudaGraphEngine(actor, s, GPU, Recorder(None, CudaMeter(GPU)), sample=False)
    for step in (1, 2):  # the second rollout replays the first one's graphs
        prompts = make_prompts(s, 384, 3, step, GPU)
        assert engine.rollout(prompts).tolist() == HfGenerate(actor, s, GPU, sample=False).rollout(prompts).tolist()


def test_sampling_in_a_graph_is_fresh_at_every_step_and_follows_the_seed():
    s = settings(free_cache_engine=False)
    actor = build_actor(s, 1, GPU)
    engine = CudaGraphEngine(actor, s, GPU, Recorder(None, CudaMeter(GPU)))
    prompts = make_prompts(s, 384, 3, 1, GPU)
    drawn = []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        drawn.append(engine.rollout(prompts)[:, 64:].tolist())
    assert drawn[0] == drawn[1] != drawn[2]
    assert all(len(set(row)) > 20 for row in drawn[0])


@pytest.mark.parametrize("engine", ["cuda_graph", "hf_generate"])
@pytest.mark.parametrize("adaptation", ["lora", "full"])
def test_a_whole_trial(engine, adaptation):
    found = events(settings(engine=engine, adaptation=adaptation, dtype="bfloat16", total_training_steps=3))
    assert found[-1]["event"] == "finished"
    ends = [e for e in found if e["event"] == "stage_end"]
    assert all(0 < e["allocated_bytes"] <= e["reserved_bytes"] <= e["peak_reserved_bytes"] for e in ends)
    # Nothing piles up from step to step: pools, graphs and workspaces of the second rollout are gone at the third.
    after = [e["allocated_bytes"] for e in ends if e["stage"] == "actor_update"]
    assert after[1] == after[2]


def test_offload_changes_no_peak_but_frees_the_device_between():
    plain, moved = (
        {(e["stage"], e["step"]): e for e in events(settings(adaptation="full", model="Qwen/Qwen3-0.6B", use_kl=True,
         dtype="bfloat16", parameter_offload=offload)) if e["event"] == "stage_end"}
        for offload in (False, True)
    )  # fmt: skip
    assert moved["reward", 1]["allocated_bytes"] < plain["reward", 1]["allocated_bytes"] / 10


def test_a_device_out_of_memory_says_what_was_asked_and_what_was_free():
    try:
        torch.empty(2**45, dtype=torch.uint8, device=GPU)
    except torch.OutOfMemoryError as error:
        found = describe_failure(error, GPU)
    assert found["exception_types"] == ["torch.OutOfMemoryError"]
    assert found["requested_alloc_bytes"] == 2**45
    assert found["device_free_bytes"] > 0
    assert found["oom_count"] >= 1
    assert found["reclaimable_bytes"] is not None
