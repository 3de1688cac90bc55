"""The published side of the headline numbers: the same frames, out of the Parquet files with Polars."""

import polars as pl

from .from_archives import ATTEMPTS, LABELS, SLOTS, STAGES, TRIALS, Tables
from .release import Release

NS, MIB = 1_000_000_000, 1_048_576


def scan(release: Release, view: str, schema: dict) -> pl.LazyFrame:
    """One view, or no rows where it has no file."""
    files = release.views[view].files
    return pl.scan_parquet(files) if files else pl.LazyFrame(schema=schema)


def whole(seconds: str, ns: str) -> pl.Expr:
    """The integer nanoseconds behind a column of seconds (exact: a double holds them up to 104 days)."""
    return (pl.col(seconds) * NS).round().cast(pl.Int64).alias(ns)


def read_views(release: Release) -> Tables:
    trials = scan(release, "trials", TRIALS)
    configurations = scan(release, "configurations", LABELS)
    described = configurations.select("configuration_id", "model_id", "device")
    return Tables(
        attempts=scan(release, "attempts", ATTEMPTS)
        .with_columns(whole("device_seconds", "device_ns"), pl.col("attempt_number").cast(pl.Int64))
        .select(list(ATTEMPTS))
        .collect(),
        slots=scan(release, "panel_slots", SLOTS)
        .with_columns(pl.col("seed").cast(pl.Int64))
        .select(list(SLOTS))
        .collect(),
        trials=trials.join(described, on="configuration_id", how="left", suffix="_of_configuration")
        .with_columns(whole("wall_seconds", "wall_ns"), pl.col("seed").cast(pl.Int64))
        .select(list(TRIALS))
        .collect(),
        stages=scan(release, "stage_peaks", STAGES).with_columns(whole("seconds", "ns")).select(list(STAGES)).collect(),
        labels=configurations.with_columns(
            (pl.col("max_completed_peak_mib") * MIB).round().cast(pl.Int64).alias("max_completed_peak_bytes")
        )
        .select(list(LABELS))
        .collect(),
    )
