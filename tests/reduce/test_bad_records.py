"""Every kind of bad raw record is refused with archive, member, line, what was found and what was expected."""

import json
import shutil
from pathlib import Path

import pytest
from fitproof.reduce.reduction import reduce_archives
from fitproof.schema.canonical import canonical_json, sha256_hex
from raw_cases import Panel, plain, settings, used


def make(root: Path, **given) -> Path:
    panel = Panel(root=root, slots=[(settings(), 0), (settings(), 1)], **given)
    panel.attempt(0, plain(9_000), used(9_000), facts={"parameters": 5})
    panel.attempt(1, plain(9_000), used(9_000))
    return root


@pytest.fixture
def run(tmp_path) -> Path:
    """A good run directory of two attempts."""
    return make(tmp_path / "run")


def member(run: Path, name: str) -> Path:
    return sorted(run.glob(f"golden/*/attempt-1/{name}"))[0]


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def set_field(path: Path, **values: object) -> None:
    record = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**record, **values}), encoding="utf-8")


EVENT_EDITS = {
    "cut short": ('"step": 0,', '"step": 0', "line 2"),
    "two objects on a line": ('"event": "finished"', '"event": "finished"} {', "event"),
    "not a number": ('"step": 0', '"step": NaN', "NaN"),
    "infinite": ('"step": 0', '"step": Infinity', "Infinity"),
    "a fraction": ('"step": 0', '"step": 0.5', "float"),
    "an exponent": ('"step": 0', '"step": 1e2', "float"),
    "text for a number": ('"step": 0', '"step": "0"', "str"),
    "true for a number": ('"step": 0', '"step": true', "bool"),
    "a leading zero": ('"step": 1', '"step": 01', "line"),
    "a key twice": ('"step": 0', '"step": 0, "step": 0', "twice"),
    "an unknown field": ('"step": 0', '"step": 0, "extra": null', "unknown field extra"),
    "a field of another event": ('"step": 0', '"step": 0, "tokens": null', "unknown field tokens"),
    "a missing field": ('"step": 0, ', "", "missing field step"),
    "a null": ('"step": 0', '"step": null', "step is null"),
    "above 64 bits": ('"step": 0', '"step": 9223372036854775808', "64 bits"),
    "negative bytes": ('"allocated_bytes": 1', '"allocated_bytes": -1', "not negative"),
    "an unknown event": ('"event": "finished"', '"event": "finished2"', "finished2"),
    "an unknown stage": ('"stage": "rollout"', '"stage": "rollout2"', "rollout2"),
    "a stage that did not begin": ('"stage": "rollout", "step": 1', '"stage": "rollout", "step": 2', "line 5"),
    "a fact that is a list": ('"value": 5', '"value": [5]', "integer or a string"),
    "an empty line": ("\n", "\n\n", "line 2"),
    "space around": ('{"t_ns": 5', ' {"t_ns": 5', "line 1"),
    "not an object": ('{"t_ns": 5', '[]\n{"t_ns": 5', "line 1"),
    "null": ('{"t_ns": 5', 'null\n{"t_ns": 5', "line 1"),
    "a clock going backwards": ('"t_ns": 5300', '"t_ns": 4300', "backwards"),
    "not closed": ('"completed_steps": 2}\n', '"completed_steps": 2}', "line feed"),
}


@pytest.mark.parametrize("kind", EVENT_EDITS)
def test_events(kind, run, refusal):
    old, new, expected = EVENT_EDITS[kind]
    events = next(p for p in sorted(run.glob("golden/*/attempt-1/events.jsonl")) if "parameters" in p.read_text())
    edit(events, old, new)
    message = refusal(run)
    assert "events.jsonl line" in message
    assert "2026-01-01_gpu_test.tar.zst: golden/" in message
    assert expected in message


def test_bytes_that_are_no_utf_8_between_digits(run, refusal):
    """A character torn apart by a digit: the line's shape without digits would be valid."""
    events = member(run, "events.jsonl")
    good = events.read_bytes()
    name = b'{"t_ns": 5000000000, "event": "fact", "name": "%b", "value": 1}\n'
    events.write_bytes(name % "é".encode() + name % b"\xc35\xa9" + good)
    assert "line 2" in refusal(run)


def test_half_a_surrogate_pair(run, refusal):
    set_field(member(run, "environment.json"), os="\ud800")
    assert "surrogates" in refusal(run)


def test_a_nul_is_odd_but_text(run, pack_runs, tmp_path):
    set_field(member(run, "environment.json"), os="a\0b")
    views = reduce_archives(pack_runs(run), tmp_path / "out")
    assert next(view.rows for view in views if view.name == "devices") == 2


CSV_EDITS = {
    "negative bytes": ("0,1048576000", "0,-1048576000", "line 2"),
    "a fraction": ("0,1048576000", "0,1048576000.5", "line 2"),
    "another header": ("t_ns,", "time,", "line 1"),
    "no header": ("t_ns,device_index,device_used_bytes,process_used_bytes\n", "", "line 1"),
    "a field too many": ("5000000000,0,", "5000000000,0,0,", "line 2"),
    "a field too few": ("5000000000,0,", "5000000000,", "line 2"),
    "an empty time": ("5000000000,0,", ",0,", "line 2"),
    "quotes": ("5000000000,0,", '"5000000000",0,', "line 2"),
    "space": ("5000000000,0,", "5000000000, 0,", "line 2"),
    "an empty line": ("process_used_bytes\n", "process_used_bytes\n\n", "line 2"),
    "above 64 bits": ("5000000000,0,", "9223372036854775808,0,", "line 2"),
    "a clock going backwards": ("5150000000,", "4150000000,", "line 3"),
}


@pytest.mark.parametrize("kind", CSV_EDITS)
def test_samples(kind, run, refusal):
    old, new, expected = CSV_EDITS[kind]
    for path in run.glob("golden/*/attempt-1/memory.csv"):  # the second attempt only, so that counting is right
        if path.parent.parent.name == max(p.parent.parent.name for p in run.glob("golden/*/attempt-1/memory.csv")):
            edit(path, old, new)
    message = refusal(run)
    assert f"memory.csv {expected}" in message


def test_a_torn_line_is_refused_where_nothing_was_killed(run, refusal):
    path = member(run, "memory.csv")
    path.write_bytes(path.read_bytes()[:-3])
    assert "without line feed" in refusal(run)


TRIAL_FIELDS = {
    "schema_version": (2, "schema_version 2"),
    "execution": ("simulated", "execution 'simulated'"),
    "settings_id": ("0" * 16, "recomputed"),
    "configuration_id": ("0" * 16, "recomputed"),
    "torch": ("2.12.0", "recomputed"),
    "seed": (7, "plan"),
    "panel": ("other", "its path"),
    "attempt": (2, "its path"),
    "plan_digest": ("0" * 64, "plan_digest"),
    "code_digest": ("0" * 64, "code_digest"),
    "campaign": ("other", "ledger"),
    "allocation_id": ("other", "ledger"),
    "created_at": ("2026-13-01T10:00:00.000000Z", "UTC"),
    "effective_capacity_bytes": (-1, "not negative"),
    "weights": (None, "null"),
}


@pytest.mark.parametrize("name", TRIAL_FIELDS)
def test_trial(name, run, refusal):
    value, expected = TRIAL_FIELDS[name]
    set_field(member(run, "trial.json"), **{name: value})
    message = refusal(run)
    assert "trial.json" in message
    assert expected in message


def test_settings_that_contradict_each_other(run, refusal):
    record = json.loads(member(run, "trial.json").read_text())
    set_field(member(run, "trial.json"), settings={**record["settings"], "lora_rank": None})
    assert "lora_rank goes with" in refusal(run)


RESULT_FIELDS = {
    "status": ("memory_failure", "device_memory"),
    "failure_class": ("cosmic_rays", "one of"),
    "failure_stage": ("lunch", "one of"),
    "completed_steps": (None, "null"),
    "ended_at": ("yesterday", "UTC"),
}


@pytest.mark.parametrize("name", RESULT_FIELDS)
def test_result(name, run, refusal):
    value, expected = RESULT_FIELDS[name]
    set_field(member(run, "result.json"), **{name: value})
    message = refusal(run)
    assert "result.json" in message
    assert expected in message


def test_a_result_that_the_ledger_denies(run, refusal):
    set_field(member(run, "result.json"), status="ineligible", failure_class="data", reason="no data")
    assert "as the ledger's end says" in refusal(run)


def test_a_missing_result_of_an_ended_attempt(run, refusal):
    member(run, "result.json").unlink()
    assert "no result.json" in refusal(run)


def test_a_completed_attempt_without_events(run, refusal):
    member(run, "events.jsonl").unlink()
    assert "completed without events.jsonl" in refusal(run)


def test_a_record_without_trial_json(run, refusal):
    member(run, "trial.json").unlink()
    assert "no trial.json" in refusal(run) or "without trial.json" in refusal(run)


def plan_edit(run: Path, change, *, sign: bool = True) -> None:
    path = run / "golden/plan.json"
    plan = json.loads(path.read_text())
    change(plan)
    if sign:
        plan["digest"] = sha256_hex(canonical_json({k: v for k, v in plan.items() if k != "digest"}))
    path.write_text(json.dumps(plan), encoding="utf-8")


def test_plan_of_another_digest(run, refusal):
    plan_edit(run, lambda plan: plan.update(reason="another"), sign=False)
    assert "content digest" in refusal(run)


def test_plan_signed_anew_is_not_the_one_the_trials_ran(run, refusal):
    plan_edit(run, lambda plan: plan.update(reason="another"))
    assert "plan_digest" in refusal(run)


def test_plan_without_the_slot(run, refusal):
    plan_edit(run, lambda plan: plan["slots"].pop(0))
    digest = json.loads((run / "golden/plan.json").read_text())["digest"]
    for path in run.glob("golden/*/attempt-1/trial.json"):
        set_field(path, plan_digest=digest)
    assert "a slot of plan.json" in refusal(run)


def test_plan_with_a_wrong_slot_id(run, refusal):
    plan_edit(run, lambda plan: plan["slots"][0].update(slot_id="0" * 16))
    assert "recomputed from panel, settings and seed" in refusal(run)


def test_plan_of_an_unknown_version(run, refusal):
    plan_edit(run, lambda plan: plan.update(schema_version=9))
    assert "schema_version 9" in refusal(run)


def ledger_lines(run: Path) -> list[str]:
    return (run / "golden/ledger.jsonl").read_text().splitlines(keepends=True)


def write_ledger(run: Path, lines: list[str]) -> None:
    (run / "golden/ledger.jsonl").write_text("".join(lines), encoding="utf-8")


def test_an_end_without_a_start(run, refusal):
    write_ledger(run, [line for line in ledger_lines(run) if '"event": "start"' not in line])
    message = refusal(run)
    assert "ledger" in message


def test_an_attempt_without_a_start(run, refusal):
    write_ledger(run, ledger_lines(run)[:2])
    assert "an attempt without a start in the ledger" in refusal(run)


def test_an_unknown_member_of_an_archive(run, refusal):
    (run / "notes").mkdir()
    (run / "notes/notes.txt").write_text("hello")
    assert "no part of a run directory" in refusal(run)


def test_two_archives_that_claim_one_attempt(tmp_path, run, refusal):
    shutil.copytree(run, tmp_path / "copy")
    message = refusal(run, tmp_path / "copy")
    assert "the attempt that 2026-01-01_gpu_test.tar.zst holds already" in message
    assert "attempt-1" in message


def test_the_same_slots_on_another_device_are_no_claim(tmp_path, run, pack_runs):
    other = make(tmp_path / "other", device={"device": "NVIDIA L4", "device_kind": "cuda"})
    views = {v.name: v.rows for v in reduce_archives(pack_runs(run, other), tmp_path / "out")}
    assert (views["configurations"], views["trials"], views["panel_slots"]) == (2, 4, 4)
