"""SIGKILL at random moments of a run that writes checkpoints: every resume goes on from the last whole one."""

import hashlib
import json
import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from fitproof.runner import child
from fitproof.runner.files import checkpoint_folder
from program_cases import all_facts, write_trial

RANDOM_KILLS, AIMED_KILLS = 20, 8  # aimed: while the first checkpoint of the attempt is being written
GIVEN = dict(
    deterministic=True, checkpoint_every=1, total_training_steps=75, adaptation="full", use_kl=False,
    gradient_checkpointing=False, train_batch_size=1, max_response_length=4,
)  # fmt: skip


def _main(attempt: str) -> None:
    os.setsid()
    os._exit(child.main(Path(attempt)))


def start(run: Path, number: int) -> tuple[multiprocessing.Process, Path]:
    folder = write_trial(run / "hand" / ("0" * 16) / f"attempt-{number}", **GIVEN)
    process = multiprocessing.get_context("fork").Process(target=_main, args=(str(folder),))
    process.start()
    return process, folder


def read_events(folder: Path) -> list[dict]:
    """Whole lines; a kill may tear the last."""
    path = folder / "events.jsonl"
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []


def whole_checkpoints(root: Path) -> dict[int, dict[str, str]]:
    """step -> digests of its files, checked here with nothing of the program's own."""
    found = {}
    for manifest in root.glob("step-????????/manifest.json"):
        listed = json.loads(manifest.read_text())
        digests = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in manifest.parent.iterdir()}
        own = digests.pop("manifest.json")
        assert digests == {name: entry["sha256"] for name, entry in listed["files"].items()}, "a half-written one"
        found[listed["step"]] = digests | {"manifest.json": own}
    return found


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_every_resume_after_a_kill_goes_on_from_the_last_whole_checkpoint(tmp_path):
    process, folder = start(tmp_path / "through", 1)
    process.join(120)
    assert process.exitcode == 0
    trajectories = all_facts(read_events(folder), "rollout_sha256")
    expected = whole_checkpoints(checkpoint_folder(folder))

    randomness, kills, number, last, moments = random.Random(5), 0, 0, 0, Counter()
    while True:
        number += 1
        process, folder = start(tmp_path / "killed", number)
        root = checkpoint_folder(folder)
        if kills < RANDOM_KILLS + AIMED_KILLS:
            lines, delay = randomness.randint(0, 30), randomness.uniform(0.0, 0.02)  # up to three steps' events
            is_aimed = kills >= RANDOM_KILLS
            while process.is_alive():
                seen = read_events(folder)
                if any(e.get("stage") == "checkpoint" for e in seen) if is_aimed else len(seen) >= lines:
                    break
                time.sleep(0.001)
            time.sleep(delay / 4 if is_aimed else delay)
            os.kill(process.pid, signal.SIGKILL)
        process.join(120)
        events = read_events(folder)
        resumed = all_facts(events, "resumed_from_step")
        if any(e["event"] == "stage_end" and e["stage"] == "initializing" for e in events):
            assert resumed == ([last] if last else [])
        made = all_facts(events, "rollout_sha256")
        assert made == trajectories[last : last + len(made)]
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
        kills += 1
        stage = next((e for e in reversed(events) if "stage" in e), None)
        moments[stage["stage"] if stage and stage["event"] == "stage_begin" else "between"] += 1
        there = whole_checkpoints(root)
        assert max(there, default=0) >= last
        last = max(there, default=0)
    assert kills == RANDOM_KILLS + AIMED_KILLS
    assert len(moments) > 2, moments
    assert moments["checkpoint"] > 0
    assert events[-1]["event"] == "finished"
    assert whole_checkpoints(root) == expected
