"""Small settings that take every code path, shared by the tests of the trial program."""

import io
import json

import torch
from fitproof.runner.program import trial
from fitproof.runner.program.recorder import CpuMeter, Recorder
from fitproof.schema.settings import Settings, resolve

CPU = torch.device("cpu")
TINY = ("fitproof/tiny-qwen3", "fitproof/tiny-llama")
_LENGTHS = dict(
    workload="custom", max_prompt_length=24, max_response_length=10, train_batch_size=3, rollout_n=2, max_num_seqs=4,
    actor_micro_batch=4, dtype="float32",
)  # fmt: skip


def tiny(**given: object) -> Settings:
    return resolve(**{"model": TINY[0], **_LENGTHS, **given})


def run_events(s: Settings, seed: int = 1) -> list[dict]:
    """Run the trial on the CPU; its events."""
    out = io.StringIO()
    trial.run(s, seed=seed, device=CPU, recorder=Recorder(out, CpuMeter()))
    return [json.loads(line) for line in out.getvalue().splitlines()]


def facts(events: list[dict]) -> dict[str, object]:
    return {e["name"]: e["value"] for e in events if e["event"] == "fact"}


def stages(events: list[dict]) -> list[tuple[str, int]]:
    return [(e["stage"], e["step"]) for e in events if e["event"] == "stage_end"]
