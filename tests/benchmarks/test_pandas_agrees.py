"""The peer of the benchmark is a fair one: plain pandas gives the same values as the pipeline, view by view."""

from pathlib import Path

import pandas as pd
import pytest
from fitproof.evidence.pack import pack

from benchmarks import synthetic
from benchmarks.pandas_reduction import STACK, reduce_archives
from benchmarks.pipeline import reduce_to

SLOT = ["panel", "slot_id"]
# view -> (columns that name a row, columns that must be equal). Trials are named by their slot, here and there.
COMPARED = {
    "attempts": (
        [*SLOT, "attempt_number"],
        "configuration_id settings_id seed status failure_class failure_stage evidence device_seconds wall_seconds"
        " completed_steps exit_code signal started_at ended_at is_replacement device campaign archive",
    ),
    "trials": (
        SLOT,
        "configuration_id seed state is_within_5_percent peak_device_used_bytes peak_process_used_bytes"
        " peak_reserved_bytes peak_allocated_bytes process_overhead_bytes largest_device_used_sample_bytes"
        " reserved_plus_overhead_bytes effective_capacity_bytes limit_bytes wall_seconds device_seconds"
        " completed_steps failure_class failure_stage ballast_bytes baseline_used_bytes trainable_parameters"
        " alloc_retries sample_count sampler_interval_seconds median_interval_seconds max_interval_seconds"
        " model_id workload capacity_mib weights start_method started_at",
    ),
    "panel_slots": (SLOT, "state slot_number seed attempts estimate_seconds campaign device"),
    "stage_peaks": (
        [*SLOT, "stage"],
        "coverage peak_device_used_bytes peak_process_used_bytes peak_reserved_bytes peak_allocated_bytes"
        " largest_device_used_sample_bytes reserved_plus_overhead_bytes seconds runs completed_runs tokens"
        " sample_count",
    ),
    "memory_samples": (
        [*SLOT, "sample"],
        "elapsed_seconds stage step interval device_index device_used_bytes process_used_bytes",
    ),
    "iteration_costs": ([*SLOT, "step", "stage"], "seconds tokens tokens_per_second runs"),
    "failures": (
        SLOT,
        "stage step requested_bytes free_bytes reclaimable_bytes allocated_bytes reserved_bytes alloc_retries oom_count"
        " stage_peak_allocated_bytes stage_peak_reserved_bytes largest_device_used_sample_bytes evidence exit_code",
    ),
    "devices": (STACK, "cards attempts trials first_started_at last_started_at"),
    "configurations": (
        ["configuration_id"],
        "settings_id label single_run_state is_within_5_percent limit_mib max_completed_peak_mib"
        " max_completed_reserved_mib max_completed_allocated_mib max_completed_process_mib eligible_trials"
        " distinct_seeds completed_trials memory_failures above_margin_trials attempts campaign campaigns panel device"
        " min_effective_capacity_bytes model_id lora_rank gradient_checkpointing logits_chunk capacity_mib",
    ),
}


@pytest.fixture(scope="module")
def archives(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("archives")
    for number in range(2):
        runs = tmp_path_factory.mktemp("runs")
        synthetic.write_panel(runs, number, attempts=30, samples=120)
        pack([runs], folder / f"2026-01-01_synthetic_{number}.tar.zst", level=3)
    return sorted(folder.glob("*.tar.zst"))


@pytest.fixture(scope="module")
def pipeline(archives, tmp_path_factory) -> dict[str, pd.DataFrame]:
    root = tmp_path_factory.mktemp("views")
    assert reduce_to(archives, root) == len(COMPARED) + 1  # opd_workloads, which no synthetic panel fills
    views = {name: pd.read_parquet(root / "views" / f"{name}.parquet") for name in COMPARED if name != "memory_samples"}
    views["memory_samples"] = pd.read_parquet(root / "views" / "memory_samples")
    slots = views["trials"][["trial_id", *SLOT]]
    for name in ("stage_peaks", "memory_samples", "iteration_costs", "failures"):
        views[name] = views[name].merge(slots, on="trial_id")
    return views


@pytest.fixture(scope="module")
def peer(archives) -> dict[str, pd.DataFrame]:
    views = reduce_archives(archives)
    for name, view in views.items():
        if "key" in view and "slot_id" not in view:
            parts = view["key"].str.split("/", expand=True)
            views[name] = view.assign(panel=parts[0], slot_id=parts[1])
    return views


def _comparable(frame: pd.DataFrame, key: list[str], columns: list[str]) -> pd.DataFrame:
    frame = frame[[*key, *columns]].sort_values(key).reset_index(drop=True)
    for name in columns:
        if pd.api.types.is_bool_dtype(frame[name]):
            frame[name] = frame[name].astype("float64")
        elif pd.api.types.is_numeric_dtype(frame[name]):
            frame[name] = frame[name].astype("Float64").astype("float64")
        elif pd.api.types.is_datetime64_any_dtype(frame[name]):
            frame[name] = frame[name].astype("datetime64[us]")
        else:
            frame[name] = frame[name].astype(object).where(frame[name].notna(), None)
            known = [v for v in frame[name] if v is not None]
            if not known or not isinstance(known[0], str):
                frame[name] = frame[name].astype("float64")
    return frame


@pytest.mark.parametrize("view", sorted(COMPARED))
def test_pandas_and_pipeline_give_equal_views(pipeline, peer, view):
    key, columns = COMPARED[view][0], COMPARED[view][1].split()
    assert len(columns) >= 4
    left, right = (_comparable(side[view], key, columns) for side in (pipeline, peer))
    assert len(left) > 0
    pd.testing.assert_frame_equal(left, right, check_dtype=False, check_exact=True)


def test_all_views_are_compared(pipeline, peer):
    assert set(peer) == set(COMPARED)
