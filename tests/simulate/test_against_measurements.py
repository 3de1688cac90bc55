"""Predictions of a few measured configurations, to the accuracy that docs/simulation.md states."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["Llama-3.2-1B-Instruct short 32", "Qwen2.5-0.5B-Instruct short 16 0.7"])
def test_peaks_and_labels_are_the_measured_ones(name):
    if not (ROOT / "views" / "stage_peaks.parquet").is_file():
        pytest.skip("this checkout has no published views")
    pytest.importorskip("pyarrow")
    from fitproof.predict.compare import compare

    rows = compare(ROOT, name)
    if not rows:
        pytest.skip("the published views have no such configuration")
    for row in rows:
        assert row.predicted == row.measured
        assert row.failure_stage_agrees
        assert abs(row.allocated_error) < 1e-3
        assert abs(row.reserved_error) < 1e-2
