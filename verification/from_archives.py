"""The raw side of the headline numbers: every archive is read again and reduced by this house's own rules.

Result: `Tables`, the same four small Polars frames that from_views.py takes out of the published files.
"""

from collections import defaultdict
from dataclasses import dataclass

import polars as pl

from . import raw
from .archives import Panel, RawAttempt, attempts
from .release import Release

SEEDS = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Tables:
    """The frames that headline.py counts. Sizes in bytes, times in ns, all integers."""

    attempts: pl.DataFrame
    """slot_id, attempt_number, status, failure_class, campaign, device_ns"""
    slots: pl.DataFrame
    """panel, slot_id, seed, state"""
    trials: pl.DataFrame
    """configuration_id, model_id, device, seed, state, archive, wall_ns and the four peaks and the overhead"""
    stages: pl.DataFrame
    """stage, coverage, ns and the four peaks"""
    labels: pl.DataFrame
    """configuration_id, label, max_completed_peak_bytes"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Eligible:
    """One eligible attempt, its row of trials, and its operating limit in bytes (None: it carries no label)."""

    attempt: RawAttempt
    status: str
    row: dict
    limit: int | None


ATTEMPTS = {"slot_id": pl.String, "attempt_number": pl.Int64, "status": pl.String, "failure_class": pl.String,
            "campaign": pl.String, "device_ns": pl.Int64}  # fmt: skip
SLOTS = {"panel": pl.String, "slot_id": pl.String, "seed": pl.Int64, "state": pl.String}
PEAKS = {"peak_device_used_bytes": pl.Int64, "peak_process_used_bytes": pl.Int64, "peak_reserved_bytes": pl.Int64,
         "peak_allocated_bytes": pl.Int64}  # fmt: skip
TRIALS = {"configuration_id": pl.String, "model_id": pl.String, "device": pl.String, "seed": pl.Int64,
          "state": pl.String, "archive": pl.String, "wall_ns": pl.Int64, **PEAKS,
          "process_overhead_bytes": pl.Int64}  # fmt: skip
STAGES = {"stage": pl.String, "coverage": pl.String, "ns": pl.Int64, **PEAKS}
LABELS = {"configuration_id": pl.String, "label": pl.String, "max_completed_peak_bytes": pl.Int64}


def read_archives(release: Release) -> Tables:
    """Raises ArchiveError where an archive is not what the release says."""
    panels: dict[str, list[Panel]] = {}
    statuses: dict[tuple[str, str], list[str]] = defaultdict(list)
    attempt_rows, trial_rows, stage_rows = [], [], []
    eligible: dict[str, list[Eligible]] = defaultdict(list)
    for name, entry in sorted(release.archives.items()):
        for attempt in attempts(release.root / "releases" / name, sha256=entry["sha256"], panels=panels):
            status = raw.status(attempt)
            statuses[attempt.panel, attempt.slot_id].append(status)
            attempt_rows.append(_attempt_row(attempt, status))
            if status in raw.ELIGIBLE:
                measured = raw.measure(attempt)
                trial_rows.append(_trial_row(attempt, status, measured))
                stage_rows += [{"stage": stage, **row} for stage, row in raw.stage_peaks(measured).items()]
                eligible[attempt.trial["configuration_id"]].append(
                    Eligible(attempt=attempt, status=status, row=trial_rows[-1], limit=raw.limit_bytes(attempt.trial))
                )
                attempt.memory_csv = None  # numbers are kept, evidence is not
    return Tables(
        attempts=pl.DataFrame(attempt_rows, schema=ATTEMPTS, orient="row"),
        slots=pl.DataFrame(_slot_rows(panels, statuses), schema=SLOTS, orient="row"),
        trials=pl.DataFrame(trial_rows, schema=TRIALS, orient="row"),
        stages=pl.DataFrame(stage_rows, schema=STAGES, orient="row"),
        labels=pl.DataFrame([_label_row(c, rows) for c, rows in eligible.items()], schema=LABELS, orient="row"),
    )


def _attempt_row(attempt: RawAttempt, status: str) -> dict:
    result = attempt.result or {}
    return {"slot_id": attempt.slot_id, "attempt_number": attempt.number, "status": status,
            "failure_class": result.get("failure_class"), "campaign": attempt.trial["campaign"],
            "device_ns": result.get("device_ns")}  # fmt: skip


def _trial_row(attempt: RawAttempt, status: str, measured: raw.Measured) -> dict:
    peaks = raw.peaks(measured.intervals, measured.samples, measured.overhead)
    trial = attempt.trial
    return {
        "configuration_id": trial["configuration_id"], "model_id": trial["settings"]["model_id"],
        "device": trial["device"], "seed": trial["seed"],
        "state": raw.state(status, peaks["peak_device_used_bytes"], raw.limit_bytes(trial)),
        "archive": attempt.archive, "wall_ns": attempt.result["wall_ns"], **peaks,
        "process_overhead_bytes": measured.overhead,
    }  # fmt: skip


def _slot_rows(panels: dict[str, list[Panel]], statuses: dict[tuple[str, str], list[str]]) -> list[dict]:
    rows = []
    for panel, parts in panels.items():
        for slot in parts[0].plan["slots"]:
            found = statuses.get((panel, slot["slot_id"]), [])
            state = "not started"
            for status, name in (("interrupted", "interrupted"), ("ineligible", "ineligible"),
                                 ("memory_failure", "failed"), ("completed", "completed")):  # fmt: skip
                state = name if status in found else state
            rows.append({"panel": panel, "slot_id": slot["slot_id"], "seed": slot["seed"], "state": state})
    return rows


def _label_row(configuration_id: str, trials: list[Eligible]) -> dict:
    """The label over the first campaign, one eligible trial for each of the first three seeds."""
    trials = sorted(trials, key=lambda t: t.attempt.trial["created_at"])
    first = [t for t in trials if t.attempt.trial["campaign"] == trials[0].attempt.trial["campaign"]]
    by_seed: dict[int, Eligible] = {}
    for trial in first:
        by_seed.setdefault(trial.row["seed"], trial)
    chosen = list(by_seed.values())[:SEEDS]
    states = [t.row["state"] for t in chosen]
    if any(t.limit is None for t in chosen):
        label = None
    elif len(chosen) < SEEDS:
        label = "unresolved"
    else:
        label = next((s for s in ("memory_failure", "above_margin") if s in states), "within_margin")
    peaks = [t.row["peak_device_used_bytes"] for t in chosen if t.status == "completed"]
    known = [p for p in peaks if p is not None]
    return {"configuration_id": configuration_id, "label": label, "max_completed_peak_bytes": max(known, default=None)}
