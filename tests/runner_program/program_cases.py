"""Small settings that take every code path, shared by the tests of the trial program."""

import io
import json
from dataclasses import asdict
from pathlib import Path

import torch
from fitproof.runner.program import trial
from fitproof.runner.program.models import LanguageModel
from fitproof.runner.program.recorder import CpuMeter, Recorder
from fitproof.schema.records import SCHEMA_VERSION, event_spec, problems
from fitproof.schema.settings import Settings, resolve

CPU = torch.device("cpu")
TINY = ("fitproof/tiny-qwen3", "fitproof/tiny-llama")
_LENGTHS = dict(
    workload="custom", max_prompt_length=24, max_response_length=10, train_batch_size=3, rollout_n=2, max_num_seqs=4,
    actor_micro_batch=4, dtype="float32",
)  # fmt: skip


def tiny(**given: object) -> Settings:
    return resolve(**{"model": TINY[0], **_LENGTHS, **given})


def loud(model: LanguageModel) -> LanguageModel:
    """Make layers and an adapter matter to the choice of tokens, and biases differ: fresh random weights mostly repeat
    the input."""
    with torch.no_grad():
        for p in (p for layer in model.trunk.layers for p in layer.parameters() if p.requires_grad and p.ndim == 2):
            p.mul_(20.0 if model.adapter is not None else 5.0)
        for name, p in model.causal.named_parameters():
            if name.endswith("bias"):
                p.normal_(0, 0.1)
    return model


def run_events(s: Settings, seed: int = 1) -> list[dict]:
    """Run the trial on the CPU; its events."""
    out = io.StringIO()
    trial.run(s, seed=seed, device=CPU, recorder=Recorder(out, CpuMeter()))
    return [json.loads(line) for line in out.getvalue().splitlines()]


def all_facts(events: list[dict], name: str) -> list[object]:
    return [e["value"] for e in events if e["event"] == "fact" and e["name"] == name]


def facts(events: list[dict]) -> dict[str, object]:
    return {e["name"]: e["value"] for e in events if e["event"] == "fact"}


def stages(events: list[dict]) -> list[tuple[str, int]]:
    return [(e["stage"], e["step"]) for e in events if e["event"] == "stage_end"]


def write_trial(folder: Path, **given: object) -> Path:
    """An attempt's folder with its trial.json; `given` are settings."""
    s = tiny(**given)
    folder.mkdir(parents=True, exist_ok=True)
    record = dict(
        schema_version=SCHEMA_VERSION, execution="measured", panel="hand", slot_id="0" * 16, attempt=1, seed=3,
        settings=asdict(s), settings_id=s.settings_id, configuration_id="0" * 16, device="cpu", device_kind="cpu",
        torch=torch.__version__, transformers="5", capacity_mib=None, capacity_source=None,
        effective_capacity_bytes=None, monitor_free_bytes=None, baseline_used_bytes=None, ballast_bytes=None,
        weights="random", revision=None, start_method="spawn", sampler_interval_ns=None, time_limit_seconds=60,
        created_at="2026-12-01T10:00:00.000000Z", plan_digest="0" * 64, code_digest="0" * 64, campaign="c",
        allocation_id="a",
    )  # fmt: skip
    (folder / "trial.json").write_text(json.dumps(record))
    return folder


def events_of(folder: Path) -> list[dict]:
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    assert [p for e in events for p in problems(e, event_spec(e["event"]), e["event"])] == []
    return events
