"""hf_paged on a CUDA device: `pytest -m gpu tests/gpu`."""

import gc
import io
import json
import threading
from dataclasses import replace

import pytest
import torch
from fitproof.runner.program import trial
from fitproof.runner.program.engines.hf_generate import HfGenerate
from fitproof.runner.program.engines.hf_paged import BLOCK, HfPagedEngine
from fitproof.runner.program.models import build_actor
from fitproof.runner.program.recorder import CudaMeter, Recorder
from fitproof.runner.program.sequences import make_prompts
from fitproof.schema.models import catalogue
from fitproof.schema.settings import resolve

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
GPU = torch.device("cuda", 0)
MODEL = "Qwen/Qwen3-0.6B"
LAYERS = 4
BLOCK_BYTES = BLOCK * 2 * LAYERS * 8 * 128 * 2  # keys and values, layers, heads, width of a head, bfloat16


@pytest.fixture(autouse=True)
def _few_layers(monkeypatch):
    """The true shape with four of its layers, and a device without leftovers."""
    real = catalogue()[MODEL]
    monkeypatch.setitem(catalogue(), MODEL, replace(real, config={**real.config, "num_hidden_layers": LAYERS}))
    gc.collect()
    torch.cuda.empty_cache()


def settings(**given):
    lengths = dict(workload="custom", max_prompt_length=64, max_response_length=250, train_batch_size=3, rollout_n=2,
                   max_num_seqs=4, actor_micro_batch=4)  # fmt: skip
    return resolve(**{"model": MODEL, "engine": "hf_paged", "dtype": "float32", **lengths, **given})


def events(s) -> list[dict]:
    out = io.StringIO()
    trial.run(s, seed=1, device=GPU, recorder=Recorder(out, CudaMeter(GPU)))
    return [json.loads(line) for line in out.getvalue().splitlines()]


@pytest.mark.parametrize(
    "given", [dict(), dict(adaptation="full"), dict(padding="none"), dict(free_cache_engine=False)]
)
def test_greedy_decoding_equals_generate(given):
    s = settings(**given)
    actor = build_actor(s, 1, GPU)
    with torch.no_grad():
        for p in (p for layer in actor.trunk.layers for p in layer.parameters() if p.requires_grad and p.ndim == 2):
            p.mul_(20.0 if actor.adapter is not None else 5.0)
    engine = HfPagedEngine(actor, s, GPU, Recorder(None, CudaMeter(GPU)), sample=False)
    for step in (1, 2):
        prompts = make_prompts(s, actor.config.vocab_size, 3, step, GPU)
        assert engine.rollout(prompts).tolist() == HfGenerate(actor, s, GPU, sample=False).rollout(prompts).tolist()


def test_sampling_follows_the_seed():
    s = settings()
    actor = build_actor(s, 1, GPU)
    engine = HfPagedEngine(actor, s, GPU, Recorder(None, CudaMeter(GPU)))
    prompts = make_prompts(s, actor.config.vocab_size, 3, 1, GPU)
    drawn = []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        drawn.append(engine.rollout(prompts)[:, 64:].tolist())
    assert drawn[0] == drawn[1] != drawn[2]
    assert all(len(set(row)) > 20 for row in drawn[0])


@pytest.mark.parametrize("released", [True, False])
def test_a_trial_with_a_reservation(released):
    threads = threading.active_count()
    s = settings(dtype="bfloat16", kv_reservation="0.1", free_cache_engine=released, total_training_steps=3)
    found = events(s)
    assert found[-1]["event"] == "finished"
    assert threading.active_count() == threads
    pool = next(e["value"] for e in found if e["event"] == "fact" and e["name"] == "kv_pool_bytes")
    stages = {(e["event"], e["stage"], e["step"]): e for e in found if e["event"].startswith("stage")}
    # Between the begin of the stage and the pool the prompts are allocated, a small segment, and the cache is emptied.
    begin, share = stages["stage_begin", "rollout", 1], torch.cuda.get_device_properties(GPU).total_memory // 10
    assert pool % BLOCK_BYTES == 0
    assert share - begin["reserved_bytes"] - BLOCK_BYTES - 2**21 <= pool <= share - begin["allocated_bytes"]
    end = stages["stage_end", "rollout", 3]
    assert end["peak_allocated_bytes"] > pool
    assert (end["allocated_bytes"] < pool / 2) == released
    # Released pools do not pile up. What may: each manager has a stream, and each stream a cuBLAS workspace.
    later = [stages["stage_end", "actor_update", step]["allocated_bytes"] for step in (2, 3)]
    assert abs(later[1] - later[0]) < 128 * 2**20


def test_a_reservation_of_the_whole_card_is_an_out_of_memory():
    with pytest.raises(torch.OutOfMemoryError, match="No available memory for the cache blocks"):
        events(settings(kv_reservation="1"))
