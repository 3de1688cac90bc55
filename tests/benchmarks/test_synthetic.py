"""The generator makes what the schema asks for, the same bytes every time."""

import csv
import json
from collections import Counter
from pathlib import Path

import pytest
from fitproof.runner.plan import settings_from
from fitproof.schema import records

from benchmarks import synthetic


@pytest.fixture(scope="module")
def panel(tmp_path_factory) -> Path:
    return synthetic.write_panel(tmp_path_factory.mktemp("runs"), attempts=30, samples=60)


def _load(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def test_every_raw_record_fits_the_schema(panel):
    found, seen = [], Counter()
    plan = _load(panel / "plan.json")
    found += records.problems(plan, records.PLAN, "plan.json")
    for slot in plan["slots"]:
        found += records.problems(slot, records.SLOT, slot["slot_id"])
        settings_from(slot["settings"])
    for line in (panel / "ledger.jsonl").read_text(encoding="utf-8").splitlines():
        found += records.problems(json.loads(line), records.LEDGER, "ledger.jsonl")
    for folder in sorted(panel.glob("*/attempt-*")):
        seen["attempts"] += 1
        for name, spec in records.FILES.items():
            if (folder / name).exists():
                found += records.problems(_load(folder / name), spec, f"{folder.name}/{name}")
                seen[name] += 1
        for line in (folder / "events.jsonl").read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            found += records.problems(event, records.event_spec(event["event"]), "events.jsonl")
    assert found == []
    assert seen == {"attempts": 30, "trial.json": 30, "environment.json": 30, "result.json": 29}


def test_outcomes_cover_the_ledger(panel):
    statuses = Counter(_load(p)["status"] for p in panel.glob("*/attempt-*/result.json"))
    assert statuses["ineligible"] == 1
    assert statuses["memory_failure"] >= 6
    assert statuses["completed"] >= 15
    started = {p.parent.name for p in panel.glob("*/attempt-1")}
    assert len(_load(panel / "plan.json")["slots"]) - len(started) == 2


def test_time_never_runs_backwards_and_events_lie_within_the_samples(panel):
    for folder in panel.glob("*/attempt-*"):
        with (folder / "memory.csv").open(encoding="utf-8") as f:
            times = [int(row["t_ns"]) for row in csv.DictReader(f)]
        events = [
            json.loads(line)["t_ns"] for line in (folder / "events.jsonl").read_text(encoding="utf-8").splitlines()
        ]
        assert times == sorted(times)
        assert events == sorted(events)
        assert times[0] <= events[0]


def test_same_seed_same_bytes_and_another_seed_others(tmp_path):
    def digest(root: Path, seed: int) -> list[tuple[str, bytes]]:
        synthetic.write_panel(root, attempts=6, samples=20, seed=seed)
        return sorted((p.relative_to(root).as_posix(), p.read_bytes()) for p in root.rglob("*") if p.is_file())

    first = digest(tmp_path / "a", 1)
    assert first == digest(tmp_path / "b", 1)
    assert first != digest(tmp_path / "c", 2)


def test_panels_share_no_configuration(tmp_path):
    ids = [
        {
            _load(p)["configuration_id"]
            for p in synthetic.write_panel(tmp_path, k, attempts=6, samples=5).rglob("trial.json")
        }
        for k in range(3)
    ]
    assert all(len(i) == 2 for i in ids)
    assert len(set.union(*ids)) == 6


def test_refuses_an_uneven_count(tmp_path):
    with pytest.raises(ValueError, match="multiple of 3"):
        synthetic.write_panel(tmp_path, attempts=7)
