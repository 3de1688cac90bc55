"""The small frames that both sides fill and headline.py counts. Sizes in bytes, times in ns, all integers."""

from dataclasses import dataclass

import polars as pl

PEAKS = {
    "peak_device_used_bytes": pl.Int64,
    "peak_process_used_bytes": pl.Int64,
    "peak_reserved_bytes": pl.Int64,
    "peak_allocated_bytes": pl.Int64,
}
SLOT = {"panel": pl.String, "campaign": pl.String, "slot_id": pl.String, "configuration_id": pl.String}
ATTEMPTS = {**SLOT, "attempt_number": pl.Int64, "status": pl.String, "failure_class": pl.String, "archive": pl.String,
            "device_ns": pl.Int64}  # fmt: skip
SLOTS = {**SLOT, "seed": pl.Int64, "state": pl.String}
TRIALS = {**SLOT, "seed": pl.Int64, "state": pl.String, "archive": pl.String, "wall_ns": pl.Int64, **PEAKS,
          "process_overhead_bytes": pl.Int64, "sample_count": pl.Int64}  # fmt: skip
STAGES = {"stage": pl.String, "coverage": pl.String, "ns": pl.Int64, "tokens": pl.Int64, **PEAKS}
CONFIGURATIONS = {"configuration_id": pl.String, "settings_id": pl.String, "model_id": pl.String, "device": pl.String,
                  "label": pl.String, "single_run_state": pl.String, "limit_bytes": pl.Int64,
                  "max_completed_peak_bytes": pl.Int64}  # fmt: skip

PREDICTIONS = {"configuration_id": pl.String, "method": pl.String, "method_version": pl.String,
               "is_prospective": pl.Boolean, "is_latest": pl.Boolean, "is_measured": pl.Boolean,
               "predicted_label": pl.String, "is_label_right": pl.Boolean, "allocated_ppb": pl.Int64,
               "reserved_ppb": pl.Int64, "device_used_ppb": pl.Int64}  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Tables:
    """Frames with the columns above."""

    attempts: pl.DataFrame
    slots: pl.DataFrame
    trials: pl.DataFrame
    stages: pl.DataFrame
    configurations: pl.DataFrame
    predictions: pl.DataFrame
