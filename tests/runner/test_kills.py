"""Kills at bad moments: of the supervisor, of the fork server, of the sampler, of a trial. Nothing finished is lost, no
process stays, no label is wrong."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import fake_child
import pytest
from fake_panels import results
from fitproof.errors import EvidenceError
from fitproof.runner.ledger import read_ledger
from fitproof.runner.processes import session_members

HERE = Path(__file__).parent


def wait_for(condition, *, seconds: float = 20.0):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)
    return found


def start_supervisor(out: Path, *seeds: int) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, HERE / "drive_panel.py", out, *map(str, seeds)],
        env={**os.environ, "PYTHONPATH": str(HERE)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def descendants(pid: int) -> list[int]:
    """Pids below a process, itself left out."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(text[text.rindex(")") + 2 :].split()[1])
    found = [pid]
    for parent in found:
        found += [child for child, its in parents.items() if its == parent]
    return found[1:]


def is_alive(pid: int) -> bool:
    try:
        text = Path("/proc", str(pid), "stat").read_text()
    except OSError:
        return False
    return text[text.rindex(")") + 2] not in "ZX"


def trial_pid(out: Path, seed: int) -> int | None:
    for path in out.glob("fake/*/attempt-*/trial.json"):
        log = path.with_name("stdout.log").read_text()
        if json.loads(path.read_text())["seed"] == seed and log.endswith("\n"):
            return json.loads(log)["pid"]
    return None


def test_sigkill_of_the_supervisor_loses_only_the_running_attempt(run_fake, tmp_path):
    seeds = (fake_child.COMPLETES, fake_child.OUT_OF_MEMORY, fake_child.HANGS_DEAF)
    process = start_supervisor(tmp_path, *seeds)
    pid = wait_for(lambda: trial_pid(tmp_path, fake_child.HANGS_DEAF))
    wait_for(lambda: len(session_members(pid)) == 2)  # the trial and its grandchild
    below = descendants(process.pid)
    assert pid in below
    process.kill()
    process.wait()
    wait_for(lambda: not any(map(is_alive, below)))
    assert session_members(pid) == []
    process.stdout.close()

    before = results(tmp_path / "fake")
    assert before[fake_child.HANGS_DEAF, 1] is None
    assert {key: r["status"] for key, r in before.items() if r} == {(0, 1): "completed", (1, 1): "memory_failure"}
    summary = run_fake(*seeds, time_limit_seconds=1)
    assert summary.done_before == 2
    after = results(tmp_path / "fake")
    assert {key: before[key] for key in before if before[key]} == {key: after[key] for key in before if before[key]}
    # The interruption did not use up the one replacement of a time-out.
    last = [after[fake_child.HANGS_DEAF, attempt] for attempt in (1, 2, 3)]
    assert [result and result["failure_class"] for result in last] == [None, "timeout", "timeout"]


def test_sigkill_of_the_supervisor_at_random_moments(run_fake, tmp_path):
    seeds = (fake_child.SLOW, fake_child.COMPLETES, fake_child.DEVICE_FAULT)
    moments = random.Random(7)
    for _ in range(6):
        process = start_supervisor(tmp_path, *seeds)
        time.sleep(moments.uniform(0.3, 1.2))
        below = descendants(process.pid)
        process.kill()
        process.wait()
        process.stdout.close()
        wait_for(lambda below=below: not any(map(is_alive, below)))
    assert run_fake(*seeds).is_complete
    statuses = {}
    for (seed, _), result in sorted(results(tmp_path / "fake").items()):
        if result is not None:
            statuses.setdefault(seed, []).append(result["status"])
    # The fake device fault belongs to attempt 1; where that was interrupted, the next one simply completes.
    assert statuses.pop(fake_child.DEVICE_FAULT) in (["ineligible", "completed"], ["completed"])
    assert statuses == {fake_child.SLOW: ["completed"], fake_child.COMPLETES: ["completed"]}
    records = read_ledger(tmp_path / "fake" / "ledger.jsonl")
    starts = [(r["slot_id"], r["attempt"]) for r in records if r["event"] == "start"]
    assert len(starts) == len(set(starts)) == len(results(tmp_path / "fake"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_polite_signal_ends_cleanly(tmp_path, number):
    process = start_supervisor(tmp_path, fake_child.COMPLETES, fake_child.HANGS)
    pid = wait_for(lambda: trial_pid(tmp_path, fake_child.HANGS))
    process.send_signal(number)
    out, _ = process.communicate(timeout=20)
    assert (out.strip(), process.returncode) == ("signal", 0)
    assert session_members(pid) == []
    assert [r["status"] for r in read_ledger(tmp_path / "fake" / "ledger.jsonl")] == [
        None,
        "completed",
        None,
        "interrupted",
    ]


def test_killing_the_fork_server_is_a_harness_failure_and_is_replaced(tmp_path):
    process = start_supervisor(tmp_path, fake_child.HANGS)
    first = wait_for(lambda: trial_pid(tmp_path, fake_child.HANGS))
    server = int(Path("/proc", str(first), "stat").read_text().rsplit(")", 1)[1].split()[1])
    os.kill(server, signal.SIGKILL)
    wait_for(lambda: len(results(tmp_path / "fake")) == 2)
    assert not is_alive(first)
    process.terminate()
    process.communicate(timeout=20)
    result = results(tmp_path / "fake")[fake_child.HANGS, 1]
    assert (result["status"], result["failure_class"]) == ("ineligible", "harness")
    assert "forkserver" in result["evidence"]


def test_a_trial_without_its_sampler_is_no_measurement(tmp_path):
    process = start_supervisor(tmp_path, fake_child.SLOW)
    wait_for(lambda: trial_pid(tmp_path, fake_child.SLOW))
    (sampler,) = [p for p in descendants(process.pid) if b"runner.sampler" in Path(f"/proc/{p}/cmdline").read_bytes()]
    os.kill(sampler, signal.SIGKILL)
    process.communicate(timeout=20)
    got = {key: (r["status"], r["failure_class"]) for key, r in results(tmp_path / "fake").items()}
    assert got == {(fake_child.SLOW, 1): ("ineligible", "harness"), (fake_child.SLOW, 2): ("completed", None)}


def test_a_trial_killed_at_a_random_moment_is_never_labelled(run_fake, tmp_path):
    moments = random.Random(11)
    for number in range(5):
        out = tmp_path / str(number)
        process = start_supervisor(out, fake_child.HANGS)  # after its second update, so that it cannot end first
        pid = wait_for(lambda out=out: trial_pid(out, fake_child.HANGS))
        time.sleep(moments.uniform(0.0, 0.12))
        os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=20)
        (result,) = results(out / "fake").values()
        assert (result["status"], result["failure_class"], result["signal"]) == ("ineligible", "unknown", 9)


def test_a_half_recorded_attempt_is_set_straight(run_fake, tmp_path):
    seeds = (fake_child.COMPLETES, fake_child.OUT_OF_MEMORY)
    run_fake(*seeds)
    folder = tmp_path / "fake"
    ledger = folder / "ledger.jsonl"
    lines = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join(lines[:-1]) + lines[-1][:20])  # killed while the last end was written
    slot = json.loads(lines[-1])["slot_id"]
    stray = folder / slot / "attempt-2"  # killed after trial.json, before the start in the ledger
    stray.mkdir()
    (stray / "trial.json").write_text("{}")
    (folder / slot / "attempt-1" / "result.json.partial").write_text("{")
    summary = run_fake(*seeds)
    assert summary.done_before == 2
    assert not stray.exists()
    assert not list(folder.rglob("*.partial"))
    assert ledger.read_bytes().startswith(b"".join(lines[:-1]))
    assert [(r["event"], r["status"]) for r in read_ledger(ledger)][-1] == ("end", "memory_failure")


@pytest.mark.parametrize("lost", ["emptied", "deleted"])
def test_a_lost_ledger_never_costs_a_measurement(run_fake, tmp_path, lost):
    run_fake(fake_child.COMPLETES)
    (before,) = results(tmp_path / "fake").items()
    ledger = tmp_path / "fake" / "ledger.jsonl"
    ledger.write_bytes(b"") if lost == "emptied" else ledger.unlink()
    with pytest.raises(EvidenceError, match="nothing was removed") as caught:
        run_fake(fake_child.COMPLETES)
    assert "result.json" in caught.value.found
    assert list(results(tmp_path / "fake").items()) == [before]


def test_a_folder_that_is_no_attempt_is_named(run_fake, tmp_path):
    run_fake(fake_child.COMPLETES)
    (slot,) = (path for path in (tmp_path / "fake").iterdir() if path.is_dir())
    (slot / "attempt-copy").mkdir()
    with pytest.raises(EvidenceError, match="attempt-copy"):
        run_fake(fake_child.COMPLETES)
