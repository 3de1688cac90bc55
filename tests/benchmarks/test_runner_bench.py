"""The runner's bench works, section by section, on tiny models on the CPU; no figure is judged."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.runner.miniverl_pair import _compare
from benchmarks.runner.quick import from_ledger
from benchmarks.runner.table import Row, text

BENCH = Path(__file__).parents[2] / "benchmarks" / "runner_bench.py"
ROWS = {
    "opd": {"rollout tokens/s", "teacher positions/s", "update positions/s, batch 1", "recovery pair seconds"},
    "grpo": {"step seconds, median of 2 to 6"},
    "decode": {"tokens/s, 2 x 8", "set-up seconds, 2 x 8", "tokens/s, 4 x 16", "set-up seconds, 4 x 16"},
    "quick": {"fresh-process trials per device-hour"},
}


def run(tmp_path: Path, *arguments: str, **environment: str) -> dict:
    out = tmp_path / "out.json"
    command = [sys.executable, str(BENCH), "--tiny", "--update-batch", "1", "--out", str(out), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("section ")
    return json.loads(out.read_text())["sections"]


@pytest.mark.parametrize("section", sorted(ROWS))
def test_a_section_measures_and_says_which_peer_is_missing(tmp_path, section):
    found = run(tmp_path, "--sections", section, "--no-peers", "--records", str(tmp_path / "records"))
    assert list(found) == [section]
    rows = {row["measure"]: row for row in found[section]["rows"]}
    assert ROWS[section] <= set(rows)
    assert all(row["ours"] is not None and row["peer"] is None for row in rows.values())
    if section in ("opd", "grpo"):
        assert found[section]["peer_skipped"] == "asked for no peers"
    if section == "opd":
        assert (tmp_path / "records" / "opd-batch-1" / "opd_tiny" / "workload-fitproof.json").exists()


def test_generate_is_measured_beside_us_and_settings_reach_our_run(tmp_path):
    found = run(tmp_path, "--sections", "decode,grpo", "--grpo-set", "actor_micro_batch=2")
    assert all(row["ratio"] > 0 for row in found["decode"]["rows"] if row["measure"].startswith("tokens/s"))
    assert found["grpo"]["settings"]["actor_micro_batch"] == 2
    assert found["grpo"]["peer"] or "pip install trl==" in found["grpo"]["peer_skipped"]


def test_a_section_over_its_limit_is_skipped_and_the_rest_goes_on(tmp_path):
    found = run(tmp_path, "--sections", "decode,quick", "--limit-seconds", "1", "--quick-dir", str(ledger(tmp_path)))
    assert "time limit" in found["decode"]["skipped"]
    assert found["quick"]["rows"][0]["ours"] == 3600 * 2 / 10


def ledger(tmp_path: Path) -> Path:
    ends = [("start", 0, None), ("end", 3, "completed"), ("start", 4, None), ("end", 10, "memory_failure"),
            ("start", 11, None), ("end", 19, "interrupted")]  # fmt: skip
    lines = [
        json.dumps({"event": event, "at": f"2026-12-01T10:00:{second:02d}.000000Z", "status": status})
        for event, second, status in ends
    ]
    folder = tmp_path / "runs" / "quick"
    folder.mkdir(parents=True)
    (folder / "ledger.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path / "runs"


def test_trials_per_hour_are_from_the_first_start_to_the_last_end_of_a_trial(tmp_path):
    found = from_ledger(ledger(tmp_path) / "quick" / "ledger.jsonl")
    assert found == {"trials": 2, "seconds": 10.0, "trials_per_hour": 720.0}


def test_a_ratio_above_one_is_always_in_our_favour():
    faster = Row(section="opd", measure="tokens/s", ours=200.0, peer=50.0, peer_name="p", target=150)
    slower = Row(section="opd", measure="s", ours=2.0, peer=8.0, peer_name="p", target=1.0, higher_is_better=False)
    alone = Row(section="opd", measure="s", ours=2.0, peer=None, peer_name="p")
    assert [(r.ratio, r.is_reached) for r in (faster, slower, alone)] == [(4.0, True), (4.0, False), (None, None)]
    assert text([faster, slower, alone]).splitlines()[1].split()[-4:] == ["4.00x", ">=", "150", "reached"]


def test_miniverls_runs_are_compared_to_the_byte(tmp_path):
    from safetensors.numpy import save_file

    numpy = pytest.importorskip("numpy")
    for name in ("whole", "cut"):
        folder = tmp_path / name / "checkpoints" / "final"
        folder.mkdir(parents=True)
        for kind in ("adapter", "optimizer"):
            save_file({"a": numpy.zeros(2, dtype="float32")}, folder / f"{kind}.safetensors")
        (folder / "state.json").write_text(json.dumps({"global_step": 8, "resolved_config_digest": name}))
        (tmp_path / name / "trajectories.jsonl").write_text('{"trajectory_id": "x", "token_ids": [1]}\n')
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert _compare(whole, cut)["differences"] == []
    (cut / "trajectories.jsonl").write_text('{"trajectory_id": "x", "token_ids": [2]}\n')
    (cut / "checkpoints/final/state.json").write_text('{"global_step": 7}')
    assert _compare(whole, cut)["differences"] == ["trajectory: token ids differ", "state: global_step differs"]
