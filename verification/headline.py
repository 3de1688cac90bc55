"""The headline numbers, by name, from the small frames of either side. Integers only, so that equal means equal."""

import polars as pl

from .from_archives import PEAKS, Tables

Headline = dict[str, int | str | None]


def headline(tables: Tables) -> Headline:
    numbers: Headline = {
        "attempts": tables.attempts.height,
        "planned slots": tables.slots.height,
        "trials": tables.trials.height,
        "memory failures": tables.trials.filter(pl.col("state") == "memory_failure").height,
        "configurations": tables.labels.height,
        "models": tables.trials["model_id"].n_unique(),
        "distinct seeds": tables.trials["seed"].n_unique(),
        "device nanoseconds": tables.attempts["device_ns"].sum(),
        "wall nanoseconds of trials": tables.trials["wall_ns"].sum(),
        "largest process overhead": tables.trials["process_overhead_bytes"].max(),
    }
    numbers |= _counts(tables.attempts, "attempts", "status", "failure_class")
    numbers |= _counts(tables.slots, "planned slots", "panel", "state")
    numbers |= _counts(tables.trials, "trials", "archive", "state")
    numbers |= _counts(tables.labels, "configurations", "label")
    numbers |= _largest(tables.trials, "trial peak", "model_id", "device")
    numbers |= _largest(tables.stages, "stage peak", "stage", "coverage")
    for stage, coverage, ns in tables.stages.group_by("stage", "coverage").agg(pl.col("ns").sum()).iter_rows():
        numbers[f"stage nanoseconds [{stage}, {coverage}]"] = ns
    for configuration, label, peak in tables.labels.select(
        "configuration_id", "label", "max_completed_peak_bytes"
    ).iter_rows():
        numbers[f"label [{configuration}]"] = label
        numbers[f"largest completed peak [{configuration}]"] = peak
    return numbers


def _counts(frame: pl.DataFrame, what: str, *by: str) -> Headline:
    return {f"{what} [{_name(row[:-1])}]": row[-1] for row in frame.group_by(by).len().iter_rows()}


def _largest(frame: pl.DataFrame, what: str, *by: str) -> Headline:
    rows = frame.group_by(by).agg(pl.col(name).max() for name in PEAKS).iter_rows(named=True)
    return {f"{what} {name} [{_name([row[k] for k in by])}]": row[name] for row in rows for name in PEAKS}


def _name(values) -> str:
    return ", ".join("null" if v is None else str(v) for v in values)
