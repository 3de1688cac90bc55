"""Section quick: fresh-process trials per device-hour of panel quick, from the ledger of a run directory."""

import json
from datetime import datetime
from pathlib import Path

from fitproof.runner.panels import cpu_tiny
from fitproof.runner.plan import Panel, freeze, save_plan

from .processes import Clock, Skipped, run_verb
from .table import Row


def measure(args, scratch: Path, clock: Clock) -> tuple[list[Row], dict]:
    """After start-up: from the first start to the last end that the ledger holds."""
    out, name = args.quick_dir, "quick"
    if out is None:
        out, what = (args.records or scratch) / "quick", "quick"
        if args.tiny:
            tiny = cpu_tiny()
            name, what = tiny.name, scratch / "tiny-plan.json"
            save_plan(freeze(Panel(name=name, reason="runner bench", device_kind="cpu", slots=tiny.slots[:2])), what)
        run_verb("run", what, "--out", out, "--campaign", args.campaign, clock=clock, log=scratch / "quick.log")
    raw = from_ledger(out / name / "ledger.jsonl")
    row = Row(section="quick", measure="fresh-process trials per device-hour", ours=raw["trials_per_hour"], peer=None,
              peer_name="RLVRAMBench, as published: about 5 to 10", target=None if args.tiny else 720)  # fmt: skip
    return [row], raw


def from_ledger(path: Path) -> dict:
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    trials = [r for r in lines if r["event"] == "end" and r["status"] in ("completed", "memory_failure")]
    if not trials:
        raise Skipped(f"{path} holds no trial")
    begun = min(datetime.fromisoformat(r["at"]) for r in lines if r["event"] == "start")
    ended = max(datetime.fromisoformat(r["at"]) for r in trials)
    seconds = (ended - begun).total_seconds()
    return {"trials": len(trials), "seconds": seconds, "trials_per_hour": 3600 * len(trials) / seconds}
