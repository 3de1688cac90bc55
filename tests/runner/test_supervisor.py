"""The supervisor against fake trials: what it records, what it retries, what it leaves behind (nothing)."""

import json

import fake_child
import pytest
from fake_panels import fake_panel, results
from fitproof.errors import EvidenceError, UsageError
from fitproof.runner.ledger import Ledger, read_ledger
from fitproof.runner.plan import freeze
from fitproof.runner.processes import session_members
from fitproof.runner.recover import keep_predictions
from fitproof.schema.canonical import sha256_hex
from fitproof.schema.records import ATTEMPT_FILES, LEDGER, MEMORY_CSV_HEADER, PLAN, RESULT, TRIAL, problems


def pid_of(attempt) -> int:
    return json.loads((attempt / "stdout.log").read_text().splitlines()[0])["pid"]


def test_records_are_whole_and_valid(run_fake, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "not for trials")
    summary = run_fake(fake_child.COMPLETES)
    assert summary.statuses == {"completed": 1}
    assert summary.is_complete
    assert problems(json.loads((summary.folder / "plan.json").read_text()), PLAN, "plan") == []
    (attempt,) = summary.folder.glob("*/attempt-1")
    assert {p.name for p in attempt.iterdir()} == set(ATTEMPT_FILES) - {"environment.json"}  # the real child's file
    trial, result = (json.loads((attempt / name).read_text()) for name in ("trial.json", "result.json"))
    assert problems(trial, TRIAL, "trial") == []
    assert problems(result, RESULT, "result") == []
    assert result["completed_steps"] == 2
    assert result["device_ns"] >= result["wall_ns"] > 0
    assert trial["capacity_mib"] is None
    assert trial["effective_capacity_bytes"] is None
    header, *rows, last = (attempt / "memory.csv").read_text().split("\n")
    assert (header, last, len(rows)) == (MEMORY_CSV_HEADER, "", result["samples"])
    assert json.loads((attempt / "stdout.log").read_text())["secrets"] == []
    ledger = read_ledger(summary.folder / "ledger.jsonl")
    assert [(r["event"], r["status"]) for r in ledger] == [("start", None), ("end", "completed")]
    assert all(problems(r, LEDGER, "ledger") == [] for r in ledger)


def test_every_ending_gets_its_status(run_fake):
    summary = run_fake(
        fake_child.COMPLETES, fake_child.OUT_OF_MEMORY, fake_child.UNKNOWN, fake_child.DEVICE_FAULT,
        fake_child.KILLED, fake_child.UNFINISHED,
    )  # fmt: skip
    got = {key: (r["status"], r["failure_class"], r["failure_stage"]) for key, r in results(summary.folder).items()}
    assert got == {
        (fake_child.COMPLETES, 1): ("completed", None, None),
        (fake_child.OUT_OF_MEMORY, 1): ("memory_failure", "device_memory", "actor_update"),
        (fake_child.UNKNOWN, 1): ("ineligible", "unknown", "actor_update"),
        (fake_child.DEVICE_FAULT, 1): ("ineligible", "device_fault", "actor_update"),
        (fake_child.DEVICE_FAULT, 2): ("completed", None, None),  # the one replacement
        (fake_child.KILLED, 1): ("ineligible", "unknown", "actor_update"),  # whatever its log says
        (fake_child.UNFINISHED, 1): ("ineligible", "unknown", "initializing"),
    }
    assert summary.statuses == {"completed": 2, "ineligible": 4, "memory_failure": 1}
    assert run_fake(*range(2), out=summary.folder.parent / "other").statuses == {"completed": 1, "memory_failure": 1}


def test_time_limit_ends_grandchildren_and_is_replaced_once(run_fake):
    summary = run_fake(fake_child.HANGS_DEAF, time_limit_seconds=1)
    attempts = sorted(summary.folder.glob("*/attempt-*"))
    assert [r["failure_class"] for r in results(summary.folder).values()] == ["timeout", "timeout"]
    assert [r["signal"] for r in results(summary.folder).values()] == [9, 9]
    assert all(session_members(pid_of(attempt)) == [] for attempt in attempts)


def test_what_a_finished_trial_leaves_is_killed(run_fake):
    summary = run_fake(fake_child.LEAVES_GRANDCHILD)
    (attempt,) = summary.folder.glob("*/attempt-1")
    assert summary.statuses == {"completed": 1}
    assert session_members(pid_of(attempt)) == []


def test_a_second_call_has_nothing_to_do(run_fake):
    first = run_fake(fake_child.COMPLETES, fake_child.OUT_OF_MEMORY)
    again = run_fake(fake_child.COMPLETES, fake_child.OUT_OF_MEMORY)
    assert (again.statuses, again.done_before) == ({}, 2)
    assert len(read_ledger(first.folder / "ledger.jsonl")) == 4


def test_cold_interpreter_runs_the_same_trial(run_fake):
    summary = run_fake(fake_child.COMPLETES, fake_child.OUT_OF_MEMORY, start_method="spawn")
    assert summary.statuses == {"completed": 1, "memory_failure": 1}
    trials = [json.loads(p.read_text()) for p in summary.folder.glob("*/*/trial.json")]
    assert {t["start_method"] for t in trials} == {"spawn"}


def test_sampler_off_leaves_only_the_header(run_fake):
    summary = run_fake(fake_child.COMPLETES, sampler=False)
    (attempt,) = summary.folder.glob("*/attempt-1")
    assert summary.statuses == {"completed": 1}
    assert (attempt / "memory.csv").read_text() == MEMORY_CSV_HEADER + "\n"
    assert json.loads((attempt / "trial.json").read_text())["sampler_interval_ns"] is None
    assert json.loads((attempt / "result.json").read_text())["median_interval_ns"] is None


def test_deadline_starts_only_what_can_finish(run_fake):
    summary = run_fake(fake_child.COMPLETES, estimate_seconds=60, deadline_seconds=30)
    assert (summary.statuses, summary.not_started, summary.stopped_by) == ({}, 1, "deadline")
    assert results(summary.folder) == {}


def test_deadline_interrupts_what_took_longer_than_thought(run_fake):
    summary = run_fake(fake_child.HANGS, deadline_seconds=2.5)
    assert (summary.statuses, summary.not_started, summary.stopped_by) == ({"interrupted": 1}, 1, "deadline")
    assert results(summary.folder) == {(fake_child.HANGS, 1): None}
    assert [r["status"] for r in read_ledger(summary.folder / "ledger.jsonl")] == [None, "interrupted"]


def test_two_supervisors_refuse_each_other(run_fake, tmp_path):
    with Ledger(tmp_path / "fake" / "ledger.jsonl"), pytest.raises(UsageError, match="another supervisor"):
        run_fake(fake_child.COMPLETES)


def test_a_run_directory_keeps_its_plan(run_fake):
    run_fake(fake_child.COMPLETES)
    with pytest.raises(UsageError, match="it holds plan"):
        run_fake(fake_child.COMPLETES, fake_child.OUT_OF_MEMORY)


def test_done_archives_are_not_measured_again(run_fake, tmp_path):
    from fitproof.evidence.pack import pack

    first = run_fake(fake_child.COMPLETES, out=tmp_path / "first")
    archive = tmp_path / "2026-12-01_cpu_fake.tar.zst"
    pack([tmp_path / "first"], archive)
    second = run_fake(fake_child.COMPLETES, fake_child.OUT_OF_MEMORY, out=tmp_path / "second", done_archives=[archive])
    assert first.statuses == {"completed": 1}
    assert (second.statuses, second.done_before) == ({"memory_failure": 1}, 1)
    with pytest.raises(UsageError, match="no such file"):
        run_fake(fake_child.COMPLETES, done_archives=[tmp_path / "missing.tar.zst"])


def test_a_stack_that_does_not_import_is_said_before_anything_starts(run_fake, tmp_path):
    from fitproof.errors import EnvironmentLacks
    from fitproof.runner.spawn import Spawner

    with pytest.raises(EnvironmentLacks, match="no_such_module"):
        Spawner(target="fake_child:main", preload=("no_such_module",)).start_server()


def test_the_predictions_that_a_plan_names_are_kept_beside_it(tmp_path):
    """Another file in their place is refused before anything starts; none there is no fault."""
    folder, source = tmp_path / "runs" / "fake", tmp_path / "predictions.jsonl"
    folder.mkdir(parents=True)
    source.write_bytes(b"{}\n")
    named = freeze(fake_panel(fake_child.COMPLETES), predictions_digest=sha256_hex(b"{}\n"))
    keep_predictions(named, source, folder)
    assert (folder / "predictions.jsonl").read_bytes() == b"{}\n"
    keep_predictions(named, tmp_path / "none", folder)
    source.write_bytes(b"{ }\n")
    with pytest.raises(EvidenceError, match="which the plan names"):
        keep_predictions(named, source, folder)
    keep_predictions(freeze(fake_panel(fake_child.COMPLETES)), source, tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["predictions.jsonl", "runs"]
