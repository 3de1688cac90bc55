"""Captured and shortened passes on a CUDA device: `pytest -m gpu tests/gpu`."""

import gc
import io
import json
import os

import pytest
import torch
from fitproof.runner.program.recipes.grpo import Grpo
from fitproof.runner.program.recipes.opd import Opd
from fitproof.runner.program.recipes.ppo import Ppo
from fitproof.runner.program.recorder import CudaMeter, Recorder
from fitproof.schema.settings import resolve

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
GPU = torch.device("cuda", 0)
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # deterministic products; as large as the default


def settings(**given):
    lengths = dict(workload="custom", max_prompt_length=64, max_response_length=70, train_batch_size=4, rollout_n=2,
                   max_num_seqs=8, actor_micro_batch=1, deterministic=True)  # fmt: skip
    return resolve(**{"model": "fitproof/tiny-qwen3", "dtype": "bfloat16", **lengths, **given})


def finished(recipe, s):
    """A trial of `s` that has run, and its ended stages."""
    gc.collect()
    torch.cuda.init()
    torch.cuda.empty_cache()
    torch.manual_seed(3)
    out = io.StringIO()
    torch.use_deterministic_algorithms(True)
    try:
        trial = recipe(s, seed=3, device=GPU, recorder=Recorder(out, CudaMeter(GPU)))
        trial.run()
    finally:
        torch.use_deterministic_algorithms(False)
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    return trial, [e for e in events if e["event"] == "stage_end"]


def run(recipe, s) -> tuple[list[torch.Tensor], list[dict]]:
    """The trained parameters and the ended stages of a trial of `s`."""
    trial, stages = finished(recipe, s)
    return trained(trial), stages


def trained(trial) -> list[torch.Tensor]:
    return [p.detach().cpu() for u in trial.state.updaters.values() for p in u.model.trainable()]


@pytest.mark.parametrize("adaptation", ["lora", "full"])
@pytest.mark.parametrize("recipe", [Grpo, Ppo, Opd])
@pytest.mark.parametrize("given", [{}, {"parameter_offload": True}, {"gradient_checkpointing": False}], ids=str)
def test_a_captured_pass_gives_the_same_parameters(recipe, adaptation, given):
    given = dict(algorithm=recipe.__name__.lower(), adaptation=adaptation, **given)
    if recipe is Opd:
        given["teacher"] = "fitproof/tiny-qwen3"
    (eager, _), (captured, _) = (run(recipe, settings(**given, capture_micro_batches=c)) for c in (False, True))
    assert all(torch.equal(a, b) for a, b in zip(eager, captured, strict=True))


# Seven rows in micro-batches of two: after three replays a single row that no graph has, and its gradients are added to
# those of the replays. Eight in fours beside scoring one by one: scoring is replayed, updates are not.
UNEVEN = dict(train_batch_size=1, rollout_n=7, actor_micro_batch=2)
ONLY_SCORING = dict(actor_micro_batch=4, rollout_logprob_micro_batch=1, ref_logprob_micro_batch=1,
                    teacher_micro_batch=1)  # fmt: skip
SCORING = {"grpo": {"rollout_logprob", "reference_logprob"}, "ppo": {"rollout_logprob", "reference_logprob"},
           "opd": {"teacher_scoring"}}  # fmt: skip
UPDATES = {"grpo": {"actor_update"}, "ppo": {"values", "critic_update", "actor_update"}, "opd": {"actor_update"}}


@pytest.mark.parametrize("adaptation", ["lora", "full"])
@pytest.mark.parametrize("recipe", [Grpo, Ppo, Opd])
@pytest.mark.parametrize("given", [UNEVEN, ONLY_SCORING], ids=["uneven", "only scoring"])
def test_replays_beside_micro_batches_as_they_are_give_the_same_parameters(recipe, adaptation, given):
    name = recipe.__name__.lower()
    given = dict(algorithm=name, adaptation=adaptation, total_training_steps=3, **given)
    if recipe is Opd:
        given["teacher"] = "fitproof/tiny-qwen3"
    (eager, _), (captured, _) = (finished(recipe, settings(**given, capture_micro_batches=c)) for c in (False, True))
    assert eager.passes._captured == {}
    wanted = SCORING[name] | (UPDATES[name] if "rollout_n" in given else set())
    assert {key[0] for key in captured.passes._captured} == wanted
    assert all(torch.equal(a, b) for a, b in zip(trained(eager), trained(captured), strict=True))


def test_capture_keeps_the_peak_of_live_tensors_and_does_not_grow():
    big = dict(model="Qwen/Qwen3-0.6B", deterministic=False, total_training_steps=4)
    (_, eager), (_, captured) = (run(Grpo, settings(**big, capture_micro_batches=c)) for c in (False, True))
    updates = [[e for e in stages if e["stage"] == "actor_update"] for stages in (eager, captured)]
    for a, b in zip(*updates, strict=True):
        assert b["peak_allocated_bytes"] <= a["peak_allocated_bytes"] * 1.05
    assert updates[1][1]["reserved_bytes"] == updates[1][3]["reserved_bytes"]


@pytest.mark.parametrize("given", [{}, dict(adaptation="full"), dict(actor_micro_batch=2, logits_chunk=32)], ids=str)
def test_edges_have_the_peaks_of_the_whole(given):
    """Allocated to the byte. Results kept meanwhile may lie elsewhere in a segment of the small size class: 2 MiB."""
    big = dict(model="Qwen/Qwen3-0.6B", deterministic=False, **given)
    names = ("stage", "step", "peak_allocated_bytes", "peak_reserved_bytes")
    whole, edges = (
        [tuple(e[n] for n in names) for e in run(Grpo, settings(**big, micro_batch_coverage=c))[1]]
        for c in ("full", "edges")
    )
    assert [end[:3] for end in whole] == [end[:3] for end in edges]
    assert max(abs(a[3] - b[3]) for a, b in zip(whole, edges, strict=True)) <= 2 * 2**20
