"""Predictions of a few measured configurations, to the accuracy that docs/simulation.md states."""

from pathlib import Path

import pytest
from fitproof.predict.prediction import predict
from fitproof.schema.settings import FIELD_NAMES, Settings

ROOT = Path(__file__).parents[2]
CONFIGURATIONS = ROOT / "views" / "configurations.parquet"


@pytest.mark.parametrize(
    ("model", "micro_batch", "label"),
    [("meta-llama/Llama-3.2-1B-Instruct", 32, "memory_failure"), ("Qwen/Qwen2.5-0.5B-Instruct", 16, "within_margin")],
)
def test_peaks_and_labels_are_the_measured_ones(model, micro_batch, label):
    pq = pytest.importorskip("pyarrow.parquet")
    if not CONFIGURATIONS.is_file():
        pytest.skip("this checkout has no published views")
    rows = [
        row for row in pq.read_table(CONFIGURATIONS).to_pylist()
        if (row["model_id"], row["workload"], row["actor_micro_batch"]) == (model, "short", micro_batch)
        and row["device"] == "NVIDIA H200" and row["capacity_source"] == "emulated" and row["label"] == label
    ]  # fmt: skip
    if not rows:
        pytest.skip("the published views have no such configuration")
    row = rows[0]
    found = predict(Settings(**{name: row[name] for name in FIELD_NAMES}))
    assert found.label == label
    if label != "memory_failure":
        assert found.peak_allocated_bytes == pytest.approx(row["max_completed_allocated_mib"] * 2**20, rel=1e-3)
        assert found.peak_reserved_bytes == pytest.approx(row["max_completed_reserved_mib"] * 2**20, rel=1e-2)
