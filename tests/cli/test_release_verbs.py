"""`views` and `show` on a small release written here."""

import json
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fitproof.schema.views import VIEWS


@pytest.fixture
def release(tmp_path) -> Path:
    """Two views: three trials in one file, samples in two files."""
    trials = pa.table(
        {
            "trial_id": ["a", "b", "c"],
            "state": ["within_margin", None, "memory_failure"],
            "peak_reserved_bytes": pa.array([5_000, None, 7], pa.int64()),
            "started_at": pa.array([datetime(2026, 12, 1, 10, 0, 0, 5)] * 3, pa.timestamp("us")),
        }
    )
    (tmp_path / "views" / "memory_samples").mkdir(parents=True)
    pq.write_table(trials, tmp_path / "views" / "trials.parquet")
    for name in ("one", "two"):
        pq.write_table(pa.table({"trial_id": [name]}), tmp_path / "views" / "memory_samples" / f"{name}.parquet")
    (tmp_path / "release.json").write_text("{}\n")
    return tmp_path


def fitproof(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "fitproof", *arguments],
        cwd=cwd, capture_output=True, text=True, env=os.environ | environment,
    )  # fmt: skip


def test_views_lists_all_of_the_schema_with_rows_and_files(release):
    listed = json.loads(fitproof("views", "--json", cwd=release).stdout)
    assert [row["name"] for row in listed] == list(VIEWS)
    assert {tuple(row) for row in listed} == {("name", "rows", "split", "grain", "files")}
    rows = {row["name"]: row for row in listed}
    assert (rows["trials"]["rows"], rows["memory_samples"]["rows"], rows["failures"]["rows"]) == (3, 2, 0)
    assert rows["memory_samples"]["files"] == ["views/memory_samples/one.parquet", "views/memory_samples/two.parquet"]
    table = fitproof("views", cwd=release).stdout.splitlines()
    assert len(table) == len(VIEWS) + 1
    assert table[0].split() == ["name", "rows", "split", "grain"]


def test_show_prints_rows_to_stdout_and_the_rest_to_stderr(release):
    done = fitproof("show", "trials", "--rows", "2", cwd=release)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "trial_id  state          peak_reserved_bytes  started_at",
        "a         within_margin                5,000  2026-12-01 10:00:00.000005",
        "b         -                                -  2026-12-01 10:00:00.000005",
    ]
    assert "2 of 3 rows" in done.stderr


def test_show_as_json_keeps_nulls_and_integers(release):
    done = fitproof("show", "trials", "--json", "--columns", "peak_reserved_bytes, trial_id", cwd=release)
    assert json.loads(done.stdout) == [
        {"peak_reserved_bytes": 5000, "trial_id": "a"},
        {"peak_reserved_bytes": None, "trial_id": "b"},
        {"peak_reserved_bytes": 7, "trial_id": "c"},
    ]


def test_show_takes_the_root_from_anywhere(release, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    done = fitproof("show", "memory_samples", "--root", str(release), cwd=elsewhere)
    assert done.stdout.splitlines() == ["trial_id", "one", "two"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "trails"], "one of: memory_samples, trials"),
        (["show", "trials", "--columns", "peak"], "no column peak"),
        (["show", "trials", "--columns", 'a"; DROP'], "no column"),
        (["show", "trials", "--rows", "-1"], "--rows"),
        (["show", "trials", "--root", "nowhere"], "no such folder"),
    ],
)
def test_what_does_not_exist_is_a_wrong_call(release, arguments, words):
    done = fitproof(*arguments, cwd=release)
    assert done.returncode == 2
    assert done.stdout == ""
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_an_lfs_pointer_fails_the_check(release):
    (release / "views" / "trials.parquet").write_text("version https://git-lfs.github.com/spec/v1\n")
    for arguments in (["show", "trials"], ["views"]):
        done = fitproof(*arguments, cwd=release)
        assert done.returncode == 1
        assert "git lfs pull" in done.stderr


def test_verify_reports_every_problem_as_json(release):
    done = fitproof("verify", "--json", cwd=release)
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert report["ok"] is False
    assert {"README.md", "MANIFEST.sha256", "release.json"} <= {p["subject"] for p in report["problems"]}
    text = fitproof("verify", cwd=release)
    assert text.returncode == 1
    assert "found:" in text.stderr
    assert "FAILED" in text.stderr
