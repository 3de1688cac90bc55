"""The doctor on this machine, and on machines that lack things."""

import subprocess
import sys
from importlib import metadata

import pytest
from fitproof.runner import doctor


@pytest.fixture
def only(monkeypatch):
    """examine() without the slow question to torch, and with some packages missing or old."""

    def install(torch=(), **versions):
        def version(name):
            if versions.get(name) is None and name in versions:
                raise metadata.PackageNotFoundError(name)
            return versions.get(name, "99.0")

        monkeypatch.setattr(doctor.metadata, "version", version)
        monkeypatch.setattr(doctor, "_torch", lambda: list(torch))
        return {row.subject: row for row in doctor.examine()}

    return install


def test_every_problem_comes_with_a_command(only):
    rows = only(peft="0.1", duckdb=None)
    assert rows["peft"].state == rows["duckdb"].state == "missing"
    assert "older than 0.21" in rows["peft"].found
    assert all(row.fix for row in rows.values() if row.state == "missing")
    assert rows["fitproof reproduce"].state == rows["fitproof run cpu_tiny"].state == "missing"


def test_an_extra_that_is_missing_blocks_nothing(only):
    rows = only(bitsandbytes=None, datasets=None)
    assert rows["bitsandbytes"].state == rows["datasets"].state == "optional"
    assert rows["fitproof reproduce"].state == rows["fitproof run cpu_tiny"].state == "ok"


def test_which_rollout_engines_will_work(only, monkeypatch):
    rows = only(vllm=None)
    ours = [rows[f"rollout_engine={name}"] for name in ("cuda_graph", "hf_generate", "hf_paged")]
    assert [row.state for row in ours] == ["ok"] * 3
    assert rows["rollout_engine=vllm"].state == rows["vllm"].state == "optional"
    assert rows["rollout_engine=vllm"].fix == "pip install 'vllm>=0.33'"

    rows = only(vllm="0.9.1", peft=None)
    assert rows["rollout_engine=hf_paged"].state == "missing"
    assert rows["rollout_engine=hf_paged"].fix == rows["rollout_engine=vllm"].fix == "pip install -e '.[gpu]'"
    assert "older than 0.33" in rows["vllm"].found

    assert "no GPU" in only()["rollout_engine=vllm"].found
    monkeypatch.setattr(doctor, "_nvidia", lambda: [doctor.Row(subject="NVIDIA device", found="H200", state="ok")])
    sees = doctor.Row(subject="torch build", found="CUDA 13.0", state="ok")
    assert only(torch=[sees])["rollout_engine=vllm"].state == "ok"


def test_a_device_that_torch_cannot_see(only, monkeypatch):
    card = doctor.Row(subject="NVIDIA device", found="H200", state="ok")
    monkeypatch.setattr(doctor, "_nvidia", lambda: [card])
    blind = doctor.Row(subject="torch build", found="CPU only", state="info")
    assert only(torch=[blind])["fitproof run quick"].state == "missing"
    sees = doctor.Row(subject="torch build", found="CUDA 13.0", state="ok")
    assert only(torch=[sees])["fitproof run quick"].state == "ok"


def test_torch_is_asked_in_another_process():
    (row, *_) = doctor._torch()
    assert row.subject == "torch build"


def test_a_torch_that_breaks_is_a_finding(monkeypatch):
    monkeypatch.setattr(doctor, "_TORCH_SAYS", "raise ImportError('no such symbol')")
    (row,) = doctor._torch()
    assert (row.state, row.found) == ("missing", "ImportError: no such symbol")


def test_examining_imports_no_torch():
    code = "import sys, fitproof.runner.doctor, fitproof.runner.supervisor, fitproof.runner.panels; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "fitproof.runner.supervisor" in loaded
    assert not {"torch", "transformers", "duckdb", "pynvml"} & set(loaded)
