"""Frozen plans, and the panels they are made from."""

import json
from dataclasses import replace

import pytest
from fitproof.code import code_digest
from fitproof.errors import CheckFailed, EvidenceError, UsageError
from fitproof.runner.panels import PANELS, adaptation, coverage, cpu_tiny, grid, offload, ppo, quick, release, scout
from fitproof.runner.panels.capacities import GRID, Capacity
from fitproof.runner.plan import LONGEST_SLOT_SECONDS, freeze, load_plan, save_plan
from fitproof.schema.canonical import canonical_json, sha256_hex
from fitproof.schema.records import PLAN, SLOT, problems
from fitproof.schema.workloads import LEVELS


@pytest.fixture
def saved(tmp_path):
    plan = freeze(cpu_tiny())
    save_plan(plan, tmp_path / "plan.json")
    return plan, tmp_path / "plan.json"


def test_a_plan_survives_the_disk(saved):
    plan, path = saved
    assert load_plan(path, check_code=False) == plan
    record = json.loads(path.read_text())
    assert problems(record, PLAN, "plan") == []
    assert [problems(s, SLOT, "slot") for s in record["slots"]] == [[]] * 8
    body = {k: v for k, v in record.items() if k != "digest"}
    assert record["digest"] == sha256_hex(canonical_json(body))


def test_an_edited_plan_is_refused(saved):
    _, path = saved
    record = json.loads(path.read_text())
    for change in ({"reason": "another"}, {"slots": record["slots"][1:]}, {"predictions_digest": "0" * 64}):
        path.write_text(json.dumps({**record, **change}))
        with pytest.raises(EvidenceError, match="content digest"):
            load_plan(path)
    for change, message in (({"schema_version": 2}, "schema_version 2"), ({"extra": 1}, "unknown field extra")):
        path.write_text(json.dumps({**record, **change}))
        with pytest.raises(EvidenceError, match=message):
            load_plan(path)
    path.write_text("{")
    with pytest.raises(EvidenceError):
        load_plan(path)
    with pytest.raises(UsageError, match="no such file"):
        load_plan(path.with_name("none.json"))


def test_a_plan_edited_with_its_digest_is_refused_too(saved):
    """The digest shows an accident, not a person who computes it again; no name in a plan may leave the run folder."""
    _, path = saved
    record = json.loads(path.read_text())
    first, *rest = record["slots"]
    settings = first["settings"]
    edits = [
        ({"panel": "../elsewhere"}, "panel '../elsewhere' is no name"),
        ({"panel": ""}, "panel '' is no name"),
        ({"device_kind": "tpu"}, "device_kind 'tpu' is none of cuda, rocm, cpu"),
        ({"slots": []}, "no slots"),
        ({"slots": [first, *record["slots"]]}, "twice"),
        ({"slots": [{**first, "slot_id": "../../evil"}, *rest]}, "slot 1: slot_id '../../evil', but its settings"),
        ({"slots": [{**first, "seed": 99}, *rest]}, "slot 1: slot_id"),
        ({"slots": [{**first, "estimate_seconds": -5}, *rest]}, "estimate_seconds -5"),
        ({"slots": [{**first, "settings": {**settings, "bogus": 1}}, *rest]}, "unexpected keyword argument 'bogus'"),
        ({"slots": [{**first, "settings": {**settings, "model_id": "x/y"}}, *rest]}, "model 'x/y' found: not in"),
        ({"slots": [{**first, "settings": {}}, *rest]}, "required keyword-only argument"),
    ]
    for change, message in edits:
        edited = {**record, **change}
        edited["digest"] = sha256_hex(canonical_json({k: v for k, v in edited.items() if k != "digest"}))
        path.write_text(json.dumps(edited))
        with pytest.raises(EvidenceError) as caught:
            load_plan(path)
        assert message in str(caught.value), change


@pytest.mark.parametrize("data", [b"", b"\x93\xff", b"[" * 100_000, b"[1]", b"null"])
def test_what_is_no_plan_is_refused_with_the_next_command(data, tmp_path):
    (tmp_path / "plan.json").write_bytes(data)
    with pytest.raises(EvidenceError, match=r"next: .*fitproof plan"):
        load_plan(tmp_path / "plan.json")


def test_a_folder_is_no_plan_and_no_place_for_one(tmp_path):
    with pytest.raises(UsageError, match="Is a directory"):
        load_plan(tmp_path)
    for path in (tmp_path, tmp_path / "none" / "plan.json"):
        with pytest.raises(UsageError, match="a file in a folder that exists"):
            save_plan(freeze(cpu_tiny()), path)
    assert list(tmp_path.parent.glob("*.partial")) == []


def test_a_plan_of_other_code_is_refused(saved, tmp_path):
    _, path = saved
    other = freeze(cpu_tiny())
    record = {**other.record(), "code_digest": "1" * 64}
    record["digest"] = sha256_hex(canonical_json({k: v for k, v in record.items() if k != "digest"}))
    path.write_text(json.dumps(record))
    with pytest.raises(CheckFailed, match="made by code 1111111111111111") as caught:
        load_plan(path)
    assert caught.value.exit_code == 1
    assert "fitproof plan cpu_tiny" in str(caught.value)
    assert load_plan(path, check_code=False).code_digest == "1" * 64


def test_the_digest_of_code_is_that_of_the_package(monkeypatch):
    monkeypatch.setattr("fitproof.runner.plan.code_digest", lambda: "2" * 64)
    assert freeze(cpu_tiny()).code_digest == "2" * 64
    assert len(code_digest()) == 64


def test_predictions_are_part_of_what_is_frozen():
    assert freeze(cpu_tiny(), predictions_digest="3" * 64).digest != freeze(cpu_tiny()).digest


def test_empty_double_and_long_panels_are_refused():
    panel = cpu_tiny()
    with pytest.raises(UsageError, match="no slots"):
        freeze(replace(panel, slots=()))
    with pytest.raises(UsageError, match="twice"):
        freeze(replace(panel, slots=(*panel.slots, panel.slots[0])))
    long = replace(panel.slots[0], estimate_seconds=LONGEST_SLOT_SECONDS + 1)
    with pytest.raises(UsageError, match=f"about {LONGEST_SLOT_SECONDS + 1} s"):
        freeze(replace(panel, slots=(long,)))


def test_slot_ids_follow_panel_settings_and_seed():
    panel = cpu_tiny()
    ids = list(freeze(panel).slots)
    assert ids == list(freeze(panel).slots)
    assert ids == [s for s in ids if len(s) == 16]
    renamed = replace(panel, name="other")
    assert not set(ids) & set(freeze(renamed).slots)
    assert panel.slot_id(panel.slots[0]) != panel.slot_id(panel.slots[1])  # they differ in seed alone
    assert panel.slots[0].settings == panel.slots[1].settings


TABLE = [
    Capacity(model_id=model, workload=workload, capacity_mib=12288, reason="a test")
    for model in ("Qwen/Qwen3-0.6B", "HuggingFaceTB/SmolLM2-360M-Instruct")
    for workload in ("short", "chat", "gsm8k")
]


@pytest.mark.parametrize(
    ("panel", "slots", "configurations"),
    [
        (quick(), 12, 12),
        (coverage(), 12, 12),
        (scout(), 10, 10),
        (cpu_tiny(), 8, 7),
        (grid(capacities=TABLE), 108, 36),
        (offload(), 36, 8),
        (release(), 24, 8),
        (adaptation(), 36, 10),
        (ppo(), 24, 4),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_every_panel_freezes_with_its_stated_number_of_slots(panel, slots, configurations):
    plan = freeze(panel)
    assert len(plan.slots) == slots
    assert len({slot.settings.settings_id for slot in panel.slots}) == configurations
    assert plan.estimate_seconds > 0
    assert panel.name in PANELS


def test_quick_is_the_panel_of_the_workloads():
    settings = [slot.settings for slot in quick().slots]
    assert {s.actor_micro_batch for s in settings} == {1, 2, 4}
    for s in settings:
        assert s.actor_micro_batch == s.rollout_logprob_micro_batch == s.ref_logprob_micro_batch
        assert (s.lora_rank, s.rollout_engine, s.total_training_steps) == (8, "cuda_graph", 2)
        assert s.decode_coverage == "full"
        assert (s.capacity_mib, s.capacity_source) == (None, "device")
    assert {slot.seed for slot in quick().slots} == {0}


def test_panels_of_cells_go_seed_by_seed_and_by_capacity():
    slots = offload(seeds=(4, 5)).slots
    assert [slot.seed for slot in slots] == [4] * 12 + [5] * 12
    capacities = [slot.settings.capacity_mib for slot in slots[:12]]
    assert capacities == sorted(capacities) == [7424] * 4 + [9216] * 4 + [20480] * 4
    assert {slot.settings.capacity_source for slot in slots} == {"emulated"}


def test_grid_takes_levels_and_capacities_and_needs_its_table():
    slots = grid(capacities=TABLE[:1], seeds=(5, 6, 7)).slots
    assert [s.seed for s in slots] == [5] * 6 + [6] * 6 + [7] * 6
    for slot, (name, level) in zip(slots, LEVELS.items(), strict=False):
        given = {key: getattr(slot.settings, key) for key in level}
        assert given == level, name
        assert (slot.settings.capacity_mib, slot.settings.capacity_source) == (12288, "emulated")
        assert slot.settings.decode_coverage == "edges"
    if not GRID:
        with pytest.raises(UsageError, match="empty capacity table"):
            grid()


def test_scout_covers_four_families_of_models():
    assert len({slot.settings.model_family for slot in scout().slots}) >= 4
    assert all(slot.settings.kv_reservation is None for slot in scout().slots)
