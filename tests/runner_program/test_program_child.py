import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from fitproof.errors import EvidenceError
from fitproof.runner import child
from fitproof.runner.program import failures
from fitproof.runner.program.recorder import CpuMeter, Recorder
from fitproof.schema.records import ENVIRONMENT, problems
from program_cases import CPU, events_of, write_trial


def in_subprocess(folder: Path) -> subprocess.CompletedProcess:
    code = "import sys, pathlib; from fitproof.runner.child import main; sys.exit(main(pathlib.Path(sys.argv[1])))"
    return subprocess.run([sys.executable, "-W", "error", "-c", code, str(folder)], capture_output=True, text=True)


def test_a_trial_in_its_own_process(tmp_path):
    done = in_subprocess(write_trial(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    events = events_of(tmp_path)
    assert events[-1]["event"] == "finished"
    environment = json.loads((tmp_path / "environment.json").read_text())
    assert problems(environment, ENVIRONMENT, "environment") == []
    assert environment["device_name"] == "cpu"
    text = json.dumps(environment)
    assert os.uname().nodename not in text.split('"')
    assert str(Path.home()) not in text


def test_a_failure_is_recorded_and_printed(tmp_path):
    """A reservation that the model alone exceeds: not one sequence fits in the pool."""
    given = dict(kv_reservation="0.01", capacity_mib=1, capacity_source="device")
    done = in_subprocess(write_trial(tmp_path, **given))
    assert done.returncode == 10
    assert "Traceback" in done.stderr
    assert "No available memory for the cache blocks" in done.stderr
    *_, last = events_of(tmp_path)
    assert last["event"] == "failure"
    assert (last["stage"], last["step"]) == ("rollout", 1)
    assert last["exception_types"] == ["torch.OutOfMemoryError"]
    assert last["message"].startswith("No available memory")
    assert (tmp_path / "environment.json").exists()


def test_settings_that_the_program_refuses_are_recorded(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    assert child.main(write_trial(tmp_path, quantization="nf4")) == 10
    *_, last = events_of(tmp_path)
    assert last["exception_types"] == ["fitproof.errors.EnvironmentLacks"]
    assert last["stage"] == "initializing"


def test_an_out_of_memory_of_the_context_is_recorded_with_an_environment(tmp_path, monkeypatch):
    def no_context(*_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.50 MiB. GPU 0 has 0 bytes free")

    monkeypatch.setattr(child.environment, "start_device", no_context)
    assert child.main(write_trial(tmp_path)) == 10
    *_, last = events_of(tmp_path)
    assert (last["stage"], last["step"]) == ("idle", 0)
    assert last["requested_alloc_bytes"] == 2_621_440
    assert last["device_free_bytes"] is None
    assert problems(json.loads((tmp_path / "environment.json").read_text()), ENVIRONMENT, "environment") == []


@pytest.mark.parametrize("change", [{"seed": None}, {"schema_version": 99}, {"extra": 1}])
def test_an_unusable_trial_record_is_refused(tmp_path, change):
    path = write_trial(tmp_path) / "trial.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(EvidenceError):
        child.main(tmp_path)


def _deterministic_trial(folder: str) -> None:
    code = child.main(Path(folder))
    flags = [torch.are_deterministic_algorithms_enabled(), os.environ.get("CUBLAS_WORKSPACE_CONFIG") == ":4096:8"]
    os._exit(code if all(flags) else 1)


def test_deterministic_is_set_before_the_device_starts(tmp_path):
    write_trial(tmp_path, deterministic=True, total_training_steps=1)
    process = multiprocessing.get_context("fork").Process(target=_deterministic_trial, args=(str(tmp_path),))
    process.start()
    process.join(120)
    assert process.exitcode == 0


def test_two_processes_with_one_seed_tell_one_story(tmp_path):
    stories = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        assert child.main(write_trial(tmp_path / name, total_training_steps=1)) == 0
        stories.append([(e["event"], e.get("stage"), e.get("name")) for e in events_of(tmp_path / name)])
    assert stories[0] == stories[1]


def test_causes_outermost_first():
    try:
        try:
            raise torch.OutOfMemoryError("Tried to allocate 1.50 GiB. GPU 0 has")
        except RuntimeError as inner:
            raise ValueError("wrapped") from inner
    except ValueError as error:
        found = failures.describe_failure(error, CPU)
    assert found["exception_types"] == ["ValueError", "torch.OutOfMemoryError"]
    assert found["message"].startswith("Tried to allocate")
    assert found["requested_alloc_bytes"] == 3 * 2**29
    assert found["allocated_bytes"] is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has", 20 * 2**20),
        ("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1024 bytes. Error code 12", 1024),
        ("CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", None),
    ],
)
def test_requested_bytes(text, expected):
    assert failures.requested_bytes(text) == expected


def test_stages_do_not_nest():
    recorder = Recorder(None, CpuMeter())
    with pytest.raises(RuntimeError, match="begins inside"), recorder.stage("rollout", 1), recorder.stage("reward", 1):
        pass


def test_the_cpu_meter_sees_a_peak_that_is_gone_at_the_end():
    meter = CpuMeter()
    begin = meter.begin()
    block = torch.ones(64 * 2**20, dtype=torch.uint8)
    held = block.sum()
    del block
    end = meter.end()
    assert held == 64 * 2**20
    assert end["peak_allocated_bytes"] - begin["allocated_bytes"] > 60 * 2**20
    assert end["allocated_bytes"] - begin["allocated_bytes"] < 30 * 2**20
