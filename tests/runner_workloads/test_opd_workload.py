"""The OPD workload, tiny, on the CPU: three real processes, their records, the view, and what a difference does."""

import json
import os
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from fitproof.cli.app import app
from fitproof.errors import CheckFailed, EnvironmentLacks, UsageError
from fitproof.evidence.pack import pack
from fitproof.reduce.reduction import ArchiveFile, reduce_archives
from fitproof.runner.workloads import opd
from fitproof.runner.workloads.figures import read_trace
from fitproof.schema.records import CHECKPOINTS, WORKLOAD, WORKLOAD_ATTEMPTS, problems
from typer.testing import CliRunner

PANELS = ("opd_tiny", "opd_tiny_resumed")


def ledger(out: Path, panel: str) -> list[dict]:
    return [json.loads(line) for line in (out / panel / "ledger.jsonl").read_text().splitlines()]


def reduced_row(out: Path, scratch: Path) -> dict:
    packed = pack([out], scratch / "2026-12-01_cpu_opd.tar.zst", level=1)
    reduce_archives([ArchiveFile(path=packed.path, sha256=packed.sha256)], scratch)
    [row] = pq.read_table(scratch / "views" / "opd_workloads.parquet").to_pylist()
    return row


def test_three_attempts_stand_in_two_ledgers_as_what_they_were(ran):
    ends = {panel: [r["status"] for r in ledger(ran.out, panel) if r["event"] == "end"] for panel in PANELS}
    assert ends == {"opd_tiny": ["completed"], "opd_tiny_resumed": ["interrupted", "completed"]}
    [slot] = (ran.out / "opd_tiny_resumed").glob("*/")
    cut, last = (read_trace(slot / f"attempt-{number}") for number in (1, 2))
    assert (cut.facts("held_after_step"), last.facts("held_after_step")) == ([4], [])
    assert cut.events[-1]["name"] == "held_after_step"
    assert not (slot / "attempt-1" / "result.json").exists()
    assert (sorted(cut.rollouts()), sorted(last.rollouts())) == ([1, 2, 3, 4], [5, 6, 7, 8])
    assert last.facts("resumed_from_step") == [4]


def test_the_record_is_of_its_schema_and_says_that_all_is_equal(ran):
    record = json.loads((ran.out / "opd_tiny" / "workload-fitproof.json").read_text())
    assert problems(record, WORKLOAD, "record") == []
    assert problems(record["attempts"], WORKLOAD_ATTEMPTS, "attempts") == []
    assert record == ran.answer["record"]
    assert record["differences"] == []
    assert record["import_ns"] < record["recovery_pair_ns"]


def test_packed_and_reduced_it_is_a_row_that_agrees_with_the_table(ran, tmp_path):
    row = reduced_row(ran.out, tmp_path)
    assert row["is_resume_exact"] is True
    assert row["is_adapter_loadable"] is True
    assert (row["pair"], row["engine"], row["run"], row["cycles"], row["positions"]) == (
        "tiny",
        "fitproof",
        "first",
        8,
        64,
    )
    assert {name: row[name] for name in ran.answer["figures"]} == ran.answer["figures"]


@pytest.fixture
def run_again(ran, monkeypatch):
    """run_again(out, tamper): the command on what the tiny run left, after `tamper(resumed checkpoint folder)`."""

    def run(out: Path, tamper) -> object:
        def replay(plan, to, campaign, spawner, hold_after) -> None:
            for part in (plan.panel, f"{CHECKPOINTS}/{plan.panel}"):
                shutil.copytree(ran.out / part, to / part, ignore=shutil.ignore_patterns("adapter", "workload-*"))
            if plan.panel == "opd_tiny_resumed":
                [folder] = (to / CHECKPOINTS / plan.panel).glob("*/step-00000008")
                tamper(folder)

        monkeypatch.setattr(opd, "_run", replay)
        return CliRunner().invoke(app, ["workload", "opd", "--pair", "tiny", "--out", str(out), "--json"])

    return run


def test_a_changed_tensor_is_named_in_the_record_and_the_view_and_fails_the_command(run_again, tmp_path):
    def tamper(folder: Path) -> None:
        path = folder / "adapter_model.safetensors"
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)

    done = run_again(tmp_path / "runs", tamper)
    assert done.exit_code == 1
    record = json.loads((tmp_path / "runs" / "opd_tiny" / "workload-fitproof.json").read_text())
    [line] = record["differences"]
    assert line.startswith("adapter: base_model.model.model.layers.1.")
    assert line.endswith("differs in 1 of 1024 bytes")
    assert line in done.stderr
    row = reduced_row(tmp_path / "runs", tmp_path)
    assert (row["is_resume_exact"], row["is_adapter_equal"], row["is_optimizer_equal"]) == (False, False, True)
    assert row["differences"] == line


def test_a_rollout_that_differs_is_seen_in_the_events_whatever_the_record_says(ran, tmp_path):
    out = shutil.copytree(ran.out, tmp_path / "runs")
    [path] = out.glob("opd_tiny_resumed/*/attempt-2/events.jsonl")
    digest = read_trace(path.parent).rollouts()[6]
    path.write_text(path.read_text().replace(digest, "0" * 64))
    row = reduced_row(out, tmp_path)
    assert (row["is_resume_exact"], row["is_trajectory_equal"], row["is_state_equal"]) == (False, False, True)


def test_a_lost_optimizer_tensor_and_another_step_are_named(run_again, tmp_path):
    def tamper(folder: Path) -> None:
        state = json.loads((folder / "state.json").read_text())
        (folder / "state.json").write_text(json.dumps(state | {"step": 7}))
        shutil.copy(folder / "random.safetensors", folder / "actor-optimizer.safetensors")

    assert run_again(tmp_path / "runs", tamper).exit_code == 1
    record = json.loads((tmp_path / "runs" / "opd_tiny" / "workload-fitproof.json").read_text())
    assert "state: step is 8 and 7" in record["differences"]
    assert "optimizer: cpu stands in one run only" in record["differences"]
    assert (record["is_adapter_equal"], record["is_optimizer_equal"], record["is_state_equal"]) == (True, False, False)


def test_an_adapter_that_peft_does_not_load_fails_the_command(run_again, ran, tmp_path, monkeypatch):
    def spoil(checkpoint, folder, settings) -> int:
        size = opd_export(checkpoint, folder, settings)
        config = json.loads((folder / "adapter_config.json").read_text())
        (folder / "adapter_config.json").write_text(json.dumps(config | {"r": 4}))
        return size

    opd_export = opd.export
    monkeypatch.setattr(opd, "export", spoil)
    assert run_again(tmp_path / "runs", lambda folder: None).exit_code == 1
    record = json.loads((tmp_path / "runs" / "opd_tiny" / "workload-fitproof.json").read_text())
    assert record["is_adapter_loadable"] is False
    [line] = record["differences"]
    assert line.startswith("plain peft: ")


def test_an_earlier_run_is_never_gone_on_with(ran):
    with pytest.raises(UsageError, match="choose another --out"):
        opd.run_opd("tiny", ran.out, begun_ns=0)


def test_a_run_that_fails_is_named_and_leaves_its_attempt_and_no_record(tmp_path):
    with pytest.raises(CheckFailed, match="a vocabulary of 384"):
        opd.run_opd("tiny", tmp_path, overrides={"teacher_id": "fitproof/tiny-llama"}, begun_ns=0)
    [panel] = (path for path in tmp_path.iterdir() if path.name.startswith("opd_tiny"))
    assert [r["status"] for r in ledger(tmp_path, panel.name) if r["event"] == "end"] == ["ineligible"]
    assert not list(panel.glob("workload-*"))


def test_what_the_machine_lacks_is_said_as_such(tmp_path, monkeypatch):
    (tmp_path / "absent").mkdir()
    (tmp_path / "absent" / "bitsandbytes.py").write_text("raise ImportError('it is not here')\n")
    here = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "absent"), *([here] if here else [])]))
    with pytest.raises(EnvironmentLacks, match="bitsandbytes cannot be imported"):
        opd.run_opd("tiny", tmp_path / "runs", overrides={"quantization": "nf4"}, begun_ns=0)
