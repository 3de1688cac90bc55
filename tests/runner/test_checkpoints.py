"""`--resume` from the supervisor's side: whose checkpoints a new attempt finds, and a killed panel that goes on."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import fake_child
import pytest
from fitproof.evidence.pack import pack
from fitproof.runner import plan as plan_module
from fitproof.runner.plan import Panel, Slot, freeze, save_plan
from fitproof.schema.settings import resolve

S = resolve(
    model_id="fitproof/tiny-qwen3", workload="custom", train_batch_size=1, max_prompt_length=16, max_response_length=8,
    rollout_n=2, dtype="float32", total_training_steps=40, checkpoint_every=2, deterministic=True,
)  # fmt: skip


def leave_checkpoint(out: Path, panel: str, slot_id: str) -> Path:
    path = out / ".checkpoints" / panel / slot_id / "step-00000002" / "state.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


@pytest.mark.parametrize(
    ("seed", "first", "resume", "stays"),
    [
        (fake_child.SLOW, "interrupted", True, True),
        (fake_child.SLOW, "interrupted", False, False),
        (fake_child.DEVICE_FAULT, "ineligible", True, False),  # its replacement is a trial like any other
    ],
)
def test_only_an_interrupted_slot_keeps_its_checkpoints(run_fake, tmp_path, monkeypatch, seed, first, resume, stays):
    from fitproof.runner import supervisor

    found = []
    run_attempt = supervisor.run_attempt

    def spy(bench, slot_id, attempt, *, stop, **options):
        path = leave_checkpoint(tmp_path, "fake", slot_id)
        stop_early = seed == fake_child.SLOW and attempt == 1
        begun = time.monotonic()
        result = run_attempt(
            bench, slot_id, attempt, stop=lambda: stop() or (stop_early and time.monotonic() > begun + 0.3), **options
        )
        found.append((result["status"] if result else "interrupted", path.exists()))
        return result

    monkeypatch.setattr(supervisor, "run_attempt", spy)
    run_fake(seed, resume=resume)
    assert found == [(first, False), ("completed", stays)]


# The tree may change while the tests run, as in conftest.py.
CLI = "from fitproof.runner import plan; plan.code_digest = lambda: '0' * 64; from fitproof.cli import main; main()"


def start(plan: Path, out: Path, *options: str) -> subprocess.Popen:
    command = [sys.executable, "-c", CLI, "run", str(plan), "--out", str(out), *options]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def facts(attempt: Path, name: str) -> list:
    events = [json.loads(line) for line in (attempt / "events.jsonl").read_text().split("\n")[:-1]]
    return [e["value"] for e in events if e["event"] == "fact" and e["name"] == name]


def test_a_killed_panel_resumes_from_its_checkpoint_and_packs(tmp_path, monkeypatch):
    monkeypatch.setattr(plan_module, "code_digest", lambda: "0" * 64)
    plan, out = tmp_path / "plan.json", tmp_path / "out"
    slot = Slot(settings=S, seed=1, estimate_seconds=30)
    save_plan(freeze(Panel(name="hand", reason="a test", device_kind="cpu", slots=(slot,))), plan)

    def kill_at(step: int, *options: str) -> None:
        process = start(plan, out, *options)
        deadline = time.monotonic() + 120
        while not any(int(p.name[5:]) >= step for p in out.glob(".checkpoints/hand/*/step-????????")):
            assert time.monotonic() < deadline
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()

    kill_at(4)
    kill_at(10, "--resume")
    process = start(plan, out, "--resume")
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors

    (folder,) = (p for p in (out / "hand").iterdir() if p.is_dir())
    attempts = [folder / f"attempt-{n}" for n in (1, 2, 3)]
    first, second, third = (facts(a, "resumed_from_step") for a in attempts)
    assert first == []
    assert 4 <= second[0] < third[0] < 40
    assert third[0] % 2 == 0
    # A kill loses the steps since the checkpoint; made again, they are the same.
    trajectories = [facts(a, "rollout_sha256") for a in attempts]
    assert len(trajectories[2]) == 40 - third[0]
    lost = trajectories[0][second[0] :]
    assert trajectories[1][: len(lost)] == lost
    result = json.loads((attempts[2] / "result.json").read_text())
    assert (result["status"], result["completed_steps"]) == ("completed", 40)
    packed = pack([out], tmp_path / "2026-01-01_cpu_resumed.tar.zst")
    assert packed.attempts == 3
    assert any("checkpoints are no evidence" in note for note in packed.notes)
