"""miniVERL's workload: three processes of miniverl_child.py, the comparison of what they left, and a record of it."""

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from fitproof.runner.workloads.comparison import tensor_differences
from fitproof.schema.records import SCHEMA_VERSION
from fitproof.schema.settings import Settings

from .processes import ROOT, Clock, Skipped, need, offline, run_module

VERSION = "0.16.0"
_CHILD = "benchmarks.runner.miniverl_child"
# Binds the output folder, which two runs of one process tree cannot share.
_DIFFERS_BY_DESIGN = {"resolved_config_digest"}


def measure(settings: Settings, pair: str, run: str, materials: Path, scratch: Path, device: str, clock: Clock) -> dict:
    """The record of one workload (records.WORKLOAD) by miniVERL. Raises Skipped."""
    engine = need("miniverl", VERSION, "pyarrow", "pydantic")
    given = ("--settings", json.dumps(settings.identity()), "--device", device)
    log = scratch / "miniverl.log"
    whole, cut = scratch / "whole", scratch / "cut"
    begun = time.monotonic_ns()
    first = run_module(_CHILD, materials, whole, *given, clock=clock, log=log)
    _run_until_checkpoint(settings.checkpoint_every, materials, cut, given, clock, log)
    last = run_module(_CHILD, materials, cut, *given, "--resume", clock=clock, log=log)
    checks = _compare(whole / "opd", cut / "opd")
    recovery_ns = time.monotonic_ns() - begun
    return {
        "schema_version": SCHEMA_VERSION,
        "workload": "opd",
        "pair": pair,
        "engine": engine,
        "run": run,
        "device": first["device"],
        "created_at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "import_ns": _ns(first["import_seconds"]),
        "recovery_pair_ns": recovery_ns,
        "adapter_bytes": (whole / "opd/checkpoints/final/adapter.safetensors").stat().st_size,
        "run_bytes": sum(path.stat().st_size for path in (whole / "opd").rglob("*") if path.is_file()),
        **checks,
        "is_adapter_loadable": None,
        "attempts": None,
        "figures": _figures(whole / "opd", first, last),
    }


def _run_until_checkpoint(step: int, materials: Path, runs: Path, given: tuple, clock: Clock, log: Path) -> None:
    """Start a run and kill it, by its own id, once the checkpoint of `step` has been renamed into place."""
    command = [sys.executable, "-m", _CHILD, str(materials), str(runs), *given]
    wanted = runs / "opd" / "checkpoints" / f"step-{step:06d}"
    with log.open("ab") as out:
        process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out, env=offline())
        try:
            while not wanted.is_dir():
                if process.poll() is not None:
                    raise Skipped(
                        f"miniVERL ended with exit code {process.returncode} before its checkpoint; see {log}"
                    )
                if clock.left <= 1.0:
                    raise Skipped("the interrupted miniVERL run exceeded the section's time limit")
                time.sleep(0.02)
        finally:
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
            process.wait()


def _compare(whole: Path, cut: Path) -> dict:
    one, other = (run / "checkpoints" / "final" for run in (whole, cut))
    adapter = tensor_differences(one / "adapter.safetensors", other / "adapter.safetensors", "adapter")
    optimizer = tensor_differences(one / "optimizer.safetensors", other / "optimizer.safetensors", "optimizer")
    states = [json.loads((folder / "state.json").read_text(encoding="utf-8")) for folder in (one, other)]
    state = [
        f"state: {name} differs"
        for name in sorted(states[0].keys() | states[1].keys())
        if name not in _DIFFERS_BY_DESIGN and states[0].get(name) != states[1].get(name)
    ]
    trajectories = [
        {row["trajectory_id"]: row["token_ids"] for row in _lines(run / "trajectories.jsonl")} for run in (whole, cut)
    ]
    rollouts = [] if trajectories[0] == trajectories[1] else ["trajectory: token ids differ"]
    return {
        "is_trajectory_equal": not rollouts,
        "is_adapter_equal": not adapter,
        "is_optimizer_equal": not optimizer,
        "is_state_equal": not state,
        "differences": [*rollouts, *adapter, *optimizer, *state],
    }


def _figures(run: Path, first: dict, last: dict) -> dict:
    """Medians over cycles 2 to the last, of what miniVERL's own metrics say (records.WORKLOAD_FIGURES)."""
    rows = _lines(run / "metrics.jsonl")
    cycles = [row for row in rows if row["phase"] == "opd_cycle"]
    updates = [row for row in rows if row["phase"] == "opd"]
    cold = first["cold_start_seconds"]
    peaks = {
        name: max(row["memory"][name] for row in rows) or None
        for name in ("peak_allocated_bytes", "peak_reserved_bytes")
    }
    checkpoint = run / "checkpoints" / "final"
    return {
        "positions": round(statistics.median(row["selected_positions"] for row in updates)),
        "rollout_ns": _ns(statistics.median(row["rollout_seconds"] for row in cycles[1:])),
        "teacher_ns": _ns(statistics.median(row["teacher_scoring_seconds"] for row in cycles[1:])),
        "update_ns": _ns(statistics.median(row["seconds"] for row in updates[1:])),
        "cold_start_ns": _ns(cold),
        "first_rollout_ns": _ns(cold + cycles[0]["rollout_seconds"]),
        "first_update_ns": _ns(cold + cycles[0]["seconds"]),
        "resume_load_ns": _ns(last["load_seconds"]) if last["load_seconds"] is not None else None,
        **peaks,
        "downshifts": sum(row["rollout_execution"]["oom_downshifts"] for row in cycles),
        "teacher_cache_bytes": cycles[-1]["cache"]["actual_bytes"],
        "checkpoint_bytes": sum(path.stat().st_size for path in checkpoint.iterdir()),
    }


def _lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
