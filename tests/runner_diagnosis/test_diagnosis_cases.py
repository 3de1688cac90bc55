"""Every log of the case files gets the right class: the shared ones where they are at hand, and our own."""

import json
from pathlib import Path

import pytest
from fitproof.runner.diagnosis import diagnose_text
from fitproof.runner.diagnosis import hits as hits_module
from fitproof.schema.records import FAILURE_CLASSES, STAGES

ROOT = Path(__file__).parents[2]
SHARED = ROOT / ".." / "shared" / "cases" / "failure-logs.jsonl"
OWN = Path(__file__).with_name("cases.jsonl")
CLASS_OF_LABEL = {"device_memory_failure": "device_memory", "host_memory_failure": "host_memory"}


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def check(case: dict) -> None:
    found = diagnose_text(case["text"], case["exit_code"])
    memory = found.failure_class if found.failure_class in CLASS_OF_LABEL.values() else None
    assert memory == CLASS_OF_LABEL.get(case["label"]), (case["id"], found)
    assert found.failure_class in (None, *FAILURE_CLASSES)
    assert found.stage in (None, *STAGES)
    if found.failure_class is not None:
        assert found.evidence
        assert len(found.evidence) <= 400


OWN_CASES = read(OWN)


def test_own_cases_are_many_and_distinct():
    assert len(OWN_CASES) >= 300
    assert len({case["id"] for case in OWN_CASES}) == len(OWN_CASES)
    assert {case["label"] for case in OWN_CASES} == {*CLASS_OF_LABEL, "not_memory"}
    assert all(case["origin"] == "written for fitproof after public wordings" for case in OWN_CASES)


@pytest.mark.parametrize("case", OWN_CASES, ids=lambda case: case["id"])
def test_own_case(case):
    check(case)
    if case["failure_class"] is not None:
        assert diagnose_text(case["text"], case["exit_code"]).failure_class == case["failure_class"]


def test_shared_cases():
    if not SHARED.exists():
        pytest.skip(f"the shared failure logs are not at {SHARED.relative_to(ROOT)} beside this checkout")
    cases = read(SHARED)
    assert len(cases) >= 49
    for case in cases:
        check(case)


def test_the_first_look_loses_nothing(monkeypatch):
    """Lines without a watched word are not read further; reading them all must give the same classes."""
    quick = [diagnose_text(case["text"], case["exit_code"]) for case in OWN_CASES]
    monkeypatch.setattr(hits_module, "_WATCHED", hits_module.re.compile(""))
    hits_module._read.cache_clear()
    slow = [diagnose_text(case["text"], case["exit_code"]) for case in OWN_CASES]
    hits_module._read.cache_clear()
    assert quick == slow
