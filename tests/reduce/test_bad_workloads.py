"""A workload's record that contradicts itself, its attempts or another record is refused, and nothing is written."""

import json
import shutil
from pathlib import Path

import pytest
from raw_workloads import DIGESTS, run, workload

RESUMED = {3: DIGESTS[3], 4: DIGESTS[4]}


@pytest.fixture
def good(tmp_path) -> Path:
    root = tmp_path / "good"
    run(root, "first", RESUMED, minute=0)
    return root


def change(root: Path, **values: object) -> None:
    path = root / "opd_qwen3" / "workload-fitproof.json"
    record = json.loads(path.read_text())
    own = {name: values.pop(name) for name in list(values) if name in record["attempts"]}
    path.write_text(json.dumps(record | values | {"attempts": record["attempts"] | own}))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"is_state_equal": "yes"}, ("is_state_equal is str",)),
        ({"is_state_equal": None}, ("is_state_equal is null",)),
        ({"extra": 1}, ("unknown field extra",)),
        ({"run_bytes": -1}, ("run_bytes -1", "not negative")),
        ({"schema_version": 2}, ("schema_version 2",)),
        ({"workload": "ppo"}, ("workload 'ppo'",)),
        ({"created_at": "2026-12-01"}, ("created_at",)),
        ({"differences": [1]}, ("no text",)),
        ({"engine": "peer 1.0"}, ("attempts or figures", "figures for a peer")),
        ({"figures": {}}, ("attempts or figures",)),
        ({"slot_id": "0" * 16}, ("which this archive does not hold",)),
        ({"resumed_panel": "elsewhere"}, ("elsewhere/", "which this archive does not hold")),
        ({"resumed_attempt": 1, "interrupted_attempt": 2}, ("'status': 'completed'", "'status': None")),
        ({"device": "NVIDIA L4"}, ("'device': 'NVIDIA H200'", "'device': 'NVIDIA L4'")),
        ({"campaign": "second"}, ("'campaign': 'first'",)),
    ],
)
def test_it_is_refused_by_name(good, refusal, values, words):
    change(good, **values)
    message = refusal(good)
    assert "opd_qwen3/workload-fitproof.json" in message
    assert [word for word in words if word not in message] == []


def test_a_peer_without_all_its_figures_is_refused(tmp_path, refusal):
    folder = tmp_path / "runs" / "peers"
    folder.mkdir(parents=True)
    (folder / "workload-peer-1.0.json").write_text(json.dumps(workload(figures={"positions": 256})))
    assert "missing field rollout_ns" in refusal(tmp_path / "runs")


def test_a_peer_that_took_no_time_is_refused(tmp_path, refusal):
    figures = {"positions": 256, "rollout_ns": 1, "teacher_ns": 0, "update_ns": 1}
    rest = ("cold_start_ns", "first_rollout_ns", "first_update_ns", "resume_load_ns", "peak_allocated_bytes",
            "peak_reserved_bytes", "downshifts", "teacher_cache_bytes", "checkpoint_bytes")  # fmt: skip
    folder = tmp_path / "runs" / "peers"
    folder.mkdir(parents=True)
    (folder / "workload-peer-1.0.json").write_text(json.dumps(workload(figures=figures | dict.fromkeys(rest))))
    assert "teacher_ns 0" in refusal(tmp_path / "runs")


def test_one_run_stands_once(good, tmp_path, refusal):
    again = tmp_path / "again"
    run(again, "second", RESUMED, minute=5)
    change(again, run="first")
    message = refusal(good, again)
    assert "run 'first' of fitproof" in message
    assert "a campaign name of its own" in message


def test_a_workload_file_that_is_none_by_name_is_no_part_of_a_panel(good, tmp_path):
    from fitproof.errors import EvidenceError
    from fitproof.evidence.pack import pack

    shutil.copy(good / "opd_qwen3" / "workload-fitproof.json", good / "opd_qwen3" / "workload_fitproof.json")
    with pytest.raises(EvidenceError, match="no part of a panel"):
        pack([good], tmp_path / "2026-12-01_h200_opd.tar.zst", level=1)
