"""Panels of fake trials, and reading back what was recorded of them."""

import json
from pathlib import Path

from fitproof.runner.plan import Panel, Slot
from fitproof.schema.settings import resolve

TARGET = "fake_child:main"
TINY = resolve(model_id="fitproof/tiny-qwen3", workload="custom", train_batch_size=2, max_prompt_length=16,
               max_response_length=8)  # fmt: skip


def fake_panel(*seeds: int, estimate_seconds: int = 1) -> Panel:
    slots = tuple(Slot(settings=TINY, seed=seed, estimate_seconds=estimate_seconds) for seed in seeds)
    return Panel(name="fake", reason="a test", device_kind="cpu", slots=slots)


def results(folder: Path) -> dict[tuple[int, int], dict]:
    """(seed, attempt) -> result.json of a panel folder; None where there is none."""
    found = {}
    for path in folder.glob("*/attempt-*/trial.json"):
        trial = json.loads(path.read_text())
        result = path.with_name("result.json")
        found[trial["seed"], trial["attempt"]] = json.loads(result.read_text()) if result.exists() else None
    return found
