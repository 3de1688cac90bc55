"""Section grpo: seconds of one GRPO step, ours in a fresh process of the runner, TRL's on the same weights."""

import json
import statistics
from pathlib import Path

from fitproof.cli.settings_args import given_settings
from fitproof.runner.plan import Panel, Slot, freeze
from fitproof.runner.supervisor import run_panel
from fitproof.schema.settings import Settings, resolve

from .processes import Clock, Skipped, need, run_module
from .table import Row

TRL = "1.16.0"
STEPS, FROM_STEP = 6, 2


def measure(args, scratch: Path, clock: Clock) -> tuple[list[Row], dict]:
    settings = grpo_settings(args.tiny, args.grpo_set)
    raw = {"settings": settings.identity(), "ours": _ours(settings, args.tiny, scratch, clock), "peer": None}
    try:
        raw["peer"] = _peer(args, scratch, clock)
    except Skipped as reason:
        raw["peer_skipped"] = str(reason)
    ours = statistics.median(raw["ours"]["step_seconds"][FROM_STEP - 1 :])
    peer = statistics.median(raw["peer"]["step_seconds"][FROM_STEP - 1 :]) if raw["peer"] else None
    row = Row(section="grpo", measure=f"step seconds, median of {FROM_STEP} to {STEPS}", ours=ours, peer=peer,
              peer_name=f"trl {TRL}", target=None if args.tiny else 2.0, higher_is_better=False)  # fmt: skip
    return [row], raw


def grpo_settings(tiny: bool, sets: list[str]) -> Settings:
    """32 completions of 128 tokens a step, LoRA r8 on seven projections, KL to the base; of a tiny model in a test."""
    size = dict(model="Qwen/Qwen3-0.6B", max_prompt_length=128, max_response_length=128, train_batch_size=8)
    if tiny:
        size = dict(model="fitproof/tiny-qwen3", max_prompt_length=32, max_response_length=8, train_batch_size=1,
                    dtype="float32")  # fmt: skip
    return resolve(**{
        **size, "workload": "custom", "algorithm": "grpo", "rollout_n": 4, "max_num_seqs": 32, "lora_rank": 8,
        "lora_targets": "all_linear", "actor_micro_batch": 8, "use_kl": True, "total_training_steps": STEPS,
        **given_settings(sets),
    })  # fmt: skip


def _ours(settings: Settings, tiny: bool, scratch: Path, clock: Clock) -> dict:
    slot = Slot(settings=settings, seed=0, estimate_seconds=60)
    panel = Panel(name="bench_grpo", reason="runner bench", device_kind="cpu" if tiny else "cuda", slots=(slot,))
    summary = run_panel(freeze(panel), scratch, deadline_seconds=clock.left, sampler=False)
    if summary.statuses != {"completed": 1}:
        raise Skipped(f"our own run ended as {summary.statuses}; see {summary.folder}")
    [path] = summary.folder.glob("*/attempt-1/events.jsonl")
    events = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    begins = [e["t_ns"] for e in events if e["event"] == "stage_begin" and e["stage"] == "rollout"]
    ends = [max(e["t_ns"] for e in events if e["event"] == "stage_end" and e["step"] == n) for n in range(1, STEPS + 1)]
    stages = {
        name: [e["t_ns"] - b["t_ns"] for b, e in _runs(events, name)]
        for name in {e["stage"] for e in events if "stage" in e}
    }
    return {
        "step_seconds": [(end - begin) / 1e9 for begin, end in zip(begins, ends, strict=True)],
        "stage_seconds": {name: [ns / 1e9 for ns in values] for name, values in sorted(stages.items())},
        "peak_reserved_bytes": max(e["peak_reserved_bytes"] for e in events if e["event"] == "stage_end"),
    }


def _runs(events: list[dict], stage: str) -> list[tuple[dict, dict]]:
    of = [e for e in events if e.get("stage") == stage]
    return list(
        zip([e for e in of if e["event"] == "stage_begin"], [e for e in of if e["event"] == "stage_end"], strict=True)
    )


def _peer(args, scratch: Path, clock: Clock) -> dict:
    if args.no_peers:
        raise Skipped("asked for no peers")
    need("trl", TRL, "datasets", "accelerate")
    settings = grpo_settings(args.tiny, [])  # --grpo-set is ours alone
    materials = scratch / "grpo-materials"
    given = ("--settings", json.dumps(settings.identity()), "--device", "cpu" if args.tiny else "cuda")
    log = scratch / "trl.log"
    run_module("benchmarks.runner.materials", materials, *given, "--prompts", 64, clock=clock, log=log)
    paged = ["--paged"] if args.trl_paged else []
    return run_module("benchmarks.runner.trl_child", materials, scratch / "trl", *given, *paged, clock=clock, log=log)
