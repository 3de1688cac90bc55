"""The published side of the headline numbers: the same frames, out of the Parquet files with Polars."""

import polars as pl

from .predictions import ERRORS, PPB
from .release import Release
from .tables import ATTEMPTS, CONFIGURATIONS, PREDICTIONS, SLOTS, STAGES, TRIALS, Tables

NS, MIB = 1_000_000_000, 1_048_576


def scan(release: Release, view: str) -> pl.LazyFrame:
    """One view; no rows where it has no file."""
    published = release.views[view]
    if published.files:
        return pl.scan_parquet(published.files)
    return pl.LazyFrame(schema={c["name"]: POLARS_TYPES[c["type"]] for c in published.columns})


POLARS_TYPES = {"VARCHAR": pl.String, "BIGINT": pl.Int64, "INTEGER": pl.Int32, "DOUBLE": pl.Float64,
                "BOOLEAN": pl.Boolean, "TIMESTAMP": pl.Datetime("us")}  # fmt: skip


def scaled(column: str, unit: int, name: str) -> pl.Expr:
    """The integer behind a column of seconds or MiB. Exact: a double holds 104 days of ns and 8 PB of bytes."""
    return (pl.col(column) * unit).round().cast(pl.Int64).alias(name)


def read_views(release: Release) -> Tables:
    configurations = scan(release, "configurations").with_columns(
        scaled("max_completed_peak_mib", MIB, "max_completed_peak_bytes"), scaled("limit_mib", MIB, "limit_bytes")
    )
    return Tables(
        attempts=_take(scan(release, "attempts").with_columns(scaled("device_seconds", NS, "device_ns")), ATTEMPTS),
        slots=_take(scan(release, "panel_slots"), SLOTS),
        trials=_take(scan(release, "trials").with_columns(scaled("wall_seconds", NS, "wall_ns")), TRIALS),
        stages=_take(scan(release, "stage_peaks").with_columns(scaled("seconds", NS, "ns")), STAGES),
        configurations=_take(configurations, CONFIGURATIONS),
        predictions=_take(_predictions(release), PREDICTIONS),
    )


def _predictions(release: Release) -> pl.LazyFrame:
    """Every prediction, with its errors where there are any."""
    key = ["configuration_id", "method", "method_version"]
    errors = scan(release, "prediction_errors").select(
        *key,
        "is_label_right",
        pl.lit(True).alias("is_measured"),
        *((pl.col(f"{name}_error") * PPB).round().cast(pl.Int64).alias(f"{name}_ppb") for name in ERRORS),
    )
    joined = scan(release, "predictions").join(errors, on=key, how="left")
    return joined.with_columns(pl.col("is_measured").fill_null(False))


def _take(frame: pl.LazyFrame, columns: dict) -> pl.DataFrame:
    return frame.select(pl.col(name).cast(kind) for name, kind in columns.items()).collect()
