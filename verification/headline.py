"""The headline numbers, by name, from the small frames of either side. Integers only, so that equal means equal."""

import polars as pl

from .predictions import ERRORS
from .tables import PEAKS, Tables

Headline = dict[str, int | str | None]


def headline(tables: Tables) -> Headline:
    numbers: Headline = {
        "attempts": tables.attempts.height,
        "planned slots": tables.slots.height,
        "trials": tables.trials.height,
        "memory failures": tables.trials.filter(pl.col("state") == "memory_failure").height,
        "samples": tables.trials["sample_count"].sum(),
        "configurations": tables.configurations.height,
        "settings": tables.configurations["settings_id"].n_unique(),
        "models": tables.configurations["model_id"].n_unique(),
        "distinct seeds": tables.trials["seed"].n_unique(),
        "device nanoseconds": tables.attempts["device_ns"].sum(),
        "wall nanoseconds of trials": tables.trials["wall_ns"].sum(),
        "tokens": tables.stages["tokens"].sum(),
    }
    described = tables.trials.join(tables.configurations.drop("label"), on="configuration_id", how="left")
    numbers |= _counts(tables.attempts, "attempts", "archive", "status", "failure_class")
    numbers |= _counts(tables.slots, "planned slots", "panel", "campaign", "state")
    numbers |= _counts(tables.trials, "trials", "archive", "state")
    numbers |= _counts(tables.configurations, "configurations", "label")
    completed = described.filter(pl.col("state").is_null() | (pl.col("state") != "memory_failure"))
    numbers |= _largest(completed, "peak of completed trials", "model_id", "device")
    numbers |= _largest(tables.stages, "stage peak", "stage", "coverage")
    numbers |= {
        f"stage nanoseconds [{stage}, {coverage}]": ns
        for stage, coverage, ns in tables.stages.group_by("stage", "coverage").agg(pl.col("ns").sum()).iter_rows()
    }
    numbers |= _accuracy(tables.predictions)
    for row in described.iter_rows(named=True):
        slot = _name([row[k] for k in ("panel", "campaign", "slot_id", "configuration_id")])
        numbers |= {f"{name} [{slot}]": row[name] for name in ("state", "process_overhead_bytes", *PEAKS)}
    for row in tables.configurations.iter_rows(named=True):
        names = ("label", "single_run_state", "limit_bytes", "max_completed_peak_bytes")
        numbers |= {f"{name} [{row['configuration_id']}]": row[name] for name in names}
    return numbers


def _accuracy(predictions: pl.DataFrame) -> Headline:
    """Per method, over the newest version of each configuration and over frozen rows as frozen: labels and errors."""
    numbers = _counts(
        predictions, "predictions", "method", "method_version", "is_latest", "is_prospective", "is_measured"
    )
    for standing in ("is_latest", "is_prospective"):
        for (method,), own in predictions.filter(pl.col(standing) & pl.col("is_measured")).group_by("method"):
            where = f"[{method}, {standing}]"
            right = own["is_label_right"].drop_nulls()
            numbers |= {f"labels right {where}": right.sum(), f"labels judged {where}": right.len()}
            for name in ERRORS:
                errors = own[f"{name}_ppb"].drop_nulls().abs()
                if errors.len():
                    mean = errors.sum() // errors.len()
                    numbers |= {
                        f"mean {name} error, ppb {where}": mean,
                        f"worst {name} error, ppb {where}": errors.max(),
                    }
    return numbers


def _counts(frame: pl.DataFrame, what: str, *by: str) -> Headline:
    return {f"{what} [{_name(row[:-1])}]": row[-1] for row in frame.group_by(by).len().iter_rows()}


def _largest(frame: pl.DataFrame, what: str, *by: str) -> Headline:
    rows = frame.group_by(by).agg(pl.col(name).max() for name in PEAKS).iter_rows(named=True)
    return {f"{what} {name} [{_name([row[k] for k in by])}]": row[name] for row in rows for name in PEAKS}


def _name(values) -> str:
    return ", ".join("null" if v is None else str(v) for v in values)
