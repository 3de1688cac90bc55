"""fitproof predict: the answer as JSON, and refusals."""

import json
import subprocess
import sys

import pytest

TINY = ["--set", "model=fitproof/tiny-qwen3", "--set", "max_prompt_length=16", "--set", "max_response_length=16"]


def predict(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "fitproof", "predict", *arguments], capture_output=True, text=True)


def test_json_has_the_promised_keys():
    done = predict(*TINY, "--capacity", "8GiB", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {"label", "peak_allocated_bytes", "peak_reserved_bytes", "peak_device_used_bytes", "smallest_capacity_bytes",
            "stages", "seconds", "interval"} <= set(found)  # fmt: skip
    assert found["label"] == "within_margin"
    assert found["peak_allocated_bytes"] <= found["peak_reserved_bytes"] < found["peak_device_used_bytes"]
    assert found["smallest_capacity_bytes"] <= found["peak_device_used_bytes"]


@pytest.mark.parametrize("settings", [["engine=hf_paged"], ["engine=vllm", "kv_reservation=0.5"]])
def test_what_it_cannot_follow_is_exit_code_3(settings):
    done = predict(*TINY, *(word for setting in settings for word in ("--set", setting)))
    assert (done.returncode, done.stdout) == (3, "")
    assert f"rollout_{settings[0]}" in done.stderr
    assert "an engine with an allocator of its own" in done.stderr


def test_a_wrong_setting_is_exit_code_2():
    assert predict("--set", "nonsense=1").returncode == 2
