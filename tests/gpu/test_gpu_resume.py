"""Exact resume on a CUDA device, each attempt in a process of its own: `pytest -m gpu tests/gpu`."""

import json
import sys
from pathlib import Path

import pytest
import torch
from fitproof.runner.files import checkpoint_folder
from fitproof.runner.program import checkpoint
from fitproof.runner.spawn import Spawner

sys.path.insert(0, str(Path(__file__).parent.parent / "runner_program"))
from program_cases import all_facts, events_of, facts, write_trial

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
GIVEN = dict(
    deterministic=True, checkpoint_every=2, total_training_steps=4, max_prompt_length=64, max_response_length=150,
    dtype="bfloat16",
)  # fmt: skip


@pytest.fixture(scope="module")
def spawner():
    spawner = Spawner()
    yield spawner
    spawner.close()


def attempt(spawner: Spawner, run: Path, number: int, **given: object) -> list[dict]:
    folder = write_trial(run / "hand" / ("0" * 16) / f"attempt-{number}", **given)
    path = folder / "trial.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"device_kind": "cuda"}))
    ended = spawner.run(folder, time_limit_seconds=120, on_start=lambda pid: None, stop=lambda: False)
    assert ended.exit_code == 0, (folder / "stderr.log").read_text()[-3000:]
    return events_of(folder)


def final_files(run: Path) -> dict[str, bytes]:
    found = checkpoint.latest(checkpoint_folder(run / "hand" / ("0" * 16) / "attempt-1"))
    assert checkpoint.step_of(found) == 4
    return {path.name: path.read_bytes() for path in found.iterdir()}


@pytest.mark.parametrize(
    "given",
    [
        dict(),
        dict(free_cache_engine=False),
        dict(engine="hf_generate"),
        dict(adaptation="full", parameter_offload=True, optimizer_offload=True),
        dict(algorithm="ppo", adaptation="full"),
        dict(algorithm="opd", teacher="fitproof/tiny-qwen3", gradient_checkpointing=False, use_kl=False),
        dict(rollout_weights="copy", allocator="expandable_segments"),
        dict(kv_reservation="0.02", max_num_seqs=6),
        dict(quantization="nf4", optimizer="adamw_8bit"),
        dict(quantization="nf4", parameter_offload=True, rollout_weights="copy"),
        dict(adaptation="full", optimizer="adamw_8bit", optimizer_offload=True),
        dict(adaptation="full", optimizer="paged_adamw_8bit"),
    ],
    ids=lambda given: "-".join(map(str, given.values())) or "default",
)
def test_a_resumed_run_equals_the_uninterrupted_one(spawner, tmp_path, given):
    given = GIVEN | given
    through = attempt(spawner, tmp_path / "through", 1, **given)
    first = attempt(spawner, tmp_path / "cut", 1, **given | dict(total_training_steps=2))
    second = attempt(spawner, tmp_path / "cut", 2, **given)
    assert facts(second)["resumed_from_step"] == 2
    name = "rollout_sha256"
    assert all_facts(first, name) + all_facts(second, name) == all_facts(through, name)
    one, other = final_files(tmp_path / "through"), final_files(tmp_path / "cut")
    assert one.keys() == other.keys()
    assert [name for name in one if one[name] != other[name]] == []


@pytest.mark.parametrize("given", [dict(adaptation="full"), dict(adaptation="full", optimizer_offload=True)])
def test_a_checkpoint_takes_no_device_memory(spawner, tmp_path, given):
    events = attempt(spawner, tmp_path, 1, **GIVEN | given)
    boundaries = [e for e in events if e.get("stage") == "checkpoint"]
    assert [e["event"] for e in boundaries] == ["stage_begin", "stage_end"] * 2
    for begin, end in zip(boundaries[::2], boundaries[1::2], strict=True):
        assert end["peak_allocated_bytes"] == end["allocated_bytes"] == begin["allocated_bytes"]
        assert end["peak_reserved_bytes"] == end["reserved_bytes"] == begin["reserved_bytes"]
