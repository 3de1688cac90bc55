"""The OPD developer workload on a CUDA device, both pairs, exact to the byte: `pytest -m gpu tests/gpu`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


def workload(out: Path, pair: str, *sets: str) -> dict:
    given = [part for text in sets for part in ("--set", text)]
    command = [sys.executable, "-m", "fitproof", "workload", "opd", "--pair", pair, "--out", str(out), "--json", *given]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("pair", ["qwen3", "smollm2"])
@pytest.mark.parametrize("micro_batch", [1, 4])
def test_an_interrupted_run_equals_the_uninterrupted_one(tmp_path, pair, micro_batch):
    answer = workload(tmp_path / "runs", pair, f"actor_micro_batch={micro_batch}")
    assert answer["record"]["differences"] == []
    assert answer["figures"]["downshifts"] == 0
    assert answer["figures"]["peak_allocated_bytes"] <= answer["figures"]["peak_reserved_bytes"]
    [slot] = (tmp_path / "runs").glob(f"{answer['record']['attempts']['resumed_panel']}/*/attempt-1")
    assert not (slot / "result.json").exists()
