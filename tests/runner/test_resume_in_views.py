"""A panel whose supervisor was killed, reduced beside one that ran through: equal in everything but what was timed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
from fitproof.evidence.pack import pack
from fitproof.reduce.reduction import ArchiveFile, reduce_archives
from fitproof.runner.panels import cpu_tiny
from fitproof.runner.plan import Panel, freeze, save_plan
from fitproof.schema.views import VIEWS

# Resident bytes and the number of samples differ between any two runs on a CPU, as times do; the archive is named so.
MEASURED_UNITS = {"seconds", "bytes", "MiB"}
MEASURED = {"archive", "sample_count", "tokens_per_second", "started_at", "ended_at", "is_within_5_percent"}
COMPARED = ("configurations", "trials", "panel_slots", "stage_peaks", "iteration_costs")


def start(plan: Path, out: Path) -> subprocess.Popen:
    command = [sys.executable, "-m", "fitproof", "run", str(plan), "--out", str(out)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def run(plan: Path, out: Path) -> None:
    process = start(plan, out)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors


def rows(out: Path, name: str, folder: Path) -> dict[str, list]:
    archive = folder / f"2026-01-01_cpu_{name}.tar.zst"
    packed = pack([out], archive)
    reduce_archives([ArchiveFile(path=archive, sha256=packed.sha256)], folder / name)
    found = {}
    for view in COMPARED:
        columns = [c for c in VIEWS[view].columns if c.unit not in MEASURED_UNITS and c.name not in MEASURED]
        # An interruption adds an attempt; slots, trials and their numbers stay.
        names = ", ".join(c.name for c in columns if c.name not in ("attempts", "attempt_id", "attempt_number"))
        keys = ", ".join(VIEWS[view].key)
        file = folder / name / "views" / f"{view}.parquet"
        found[view] = duckdb.sql(f"SELECT {names} FROM '{file}' ORDER BY {keys}").fetchall()
    return found


def test_a_killed_and_resumed_panel_reduces_to_the_same_views(tmp_path):
    plan = tmp_path / "plan.json"
    whole = cpu_tiny()
    save_plan(freeze(Panel(name="cpu_tiny", reason="a test", device_kind="cpu", slots=whole.slots[:3])), plan)
    run(plan, tmp_path / "through")

    process = start(plan, tmp_path / "killed")
    ledger = tmp_path / "killed" / "cpu_tiny" / "ledger.jsonl"
    deadline = time.monotonic() + 120
    while not ledger.exists() or ledger.read_text().count('"start"') < 2:  # the second trial is running
        assert time.monotonic() < deadline
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    run(plan, tmp_path / "killed")

    statuses = [json.loads(line)["status"] for line in ledger.read_text().splitlines() if '"end"' in line]
    assert statuses.count("completed") == 3
    assert rows(tmp_path / "killed", "resumed", tmp_path) == rows(tmp_path / "through", "uncut", tmp_path)
