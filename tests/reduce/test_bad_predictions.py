"""Bad prediction files are refused with archive, member, line, what was found and what was expected."""

import json

import pytest
from fitproof.reduce.reduction import reduce_archives
from raw_cases import settings
from raw_predictions import MIB, line, write

ANSWER = {"peak_reserved_bytes": 9 * MIB, "label": "within_margin", "stages": {"rollout": (5, 6)}}
MEMBER = "2026-01-01_gpu_test.tar.zst: panel/predictions.jsonl"


@pytest.fixture
def file(tmp_path):
    """Writes lines as the predictions of a folder to pack; returns the folder."""

    def run(*lines: dict, name: str = "run"):
        write(tmp_path / name / "panel" / "predictions.jsonl", *lines)
        return tmp_path / name

    return run


FIELDS = {
    "an unknown field": ({"extra": 1}, "unknown field extra"),
    "a number as text": ({"peak_reserved_bytes": "9"}, "peak_reserved_bytes is str"),
    "a truth as a number": ({"completes": 1}, "completes is int"),
    "a negative number": ({"alloc_retries": -1}, "not negative"),
    "above 64 bits": ({"capacity_bytes": 2**63}, "64 bits"),
    "null method": ({"method": None}, "method is null"),
    "an empty version": ({"method_version": " "}, "method_version ' '"),
    "another schema": ({"schema_version": 2}, "schema_version 2"),
    "an unknown label": ({"label": "unresolved"}, "label 'unresolved'"),
    "an unknown stage": ({"peak_stage": "sleep"}, "peak_stage 'sleep'"),
    "another configuration": ({"device": "NVIDIA A100"}, "configuration_id"),
    "another settings_id": ({"settings_id": "0" * 16}, "settings_id"),
    "no moment": ({"frozen_at": "2026-12-01"}, "frozen_at '2026-12-01'"),
    "a refusal with an answer": ({"refusal": "cannot"}, "a refusal and label"),
    "families that are no names": ({"fitted_families": [1]}, "fitted_families [1]"),
    "a stage that is no object": ({"stages": [1]}, "stage 1"),
    "an interval upside down": ({"interval": {"peak_reserved_bytes": [2, 1]}}, "interval peak_reserved_bytes [2, 1]"),
    "an interval of something else": ({"interval": {"label": [1, 2]}}, "interval label [1, 2]"),
    "an interval of fractions": ({"interval": {"peak_reserved_bytes": [1.5, 2]}}, "interval peak_reserved_bytes"),
}


@pytest.mark.parametrize("kind", FIELDS)
def test_a_bad_field_is_named(kind, file, refusal):
    change, message = FIELDS[kind]
    told = refusal(file({**line(settings(), **ANSWER), **change}))
    assert f"{MEMBER} line 1" in told
    assert message in told


def test_a_missing_field_is_named(file, refusal):
    bad = line(settings(), **ANSWER)
    del bad["own_peft"]
    assert "missing field own_peft" in refusal(file(bad))


def test_a_stage_twice_is_refused(file, refusal):
    bad = line(settings(), **ANSWER)
    assert "stage rollout twice" in refusal(file({**bad, "stages": bad["stages"] * 2}))


def test_neither_answer_nor_refusal(file, refusal):
    assert "neither an answer nor a refusal" in refusal(file(line(settings())))


def test_settings_that_no_schema_has(file, refusal):
    bad = line(settings(), **ANSWER)
    bad["settings"] = {**bad["settings"], "dtype": "int3"}
    assert "dtype" in refusal(file(bad))


def test_two_answers_in_one_file(file, refusal):
    told = refusal(file(line(settings(), **ANSWER), line(settings(), **ANSWER)))
    assert f"{MEMBER} line 2" in told
    assert "a second answer of dry_run 1" in told


def test_two_moments_in_one_file(file, refusal):
    other = line(settings(actor_micro_batch=2), minute=1, **ANSWER)
    assert "frozen at once" in refusal(file(line(settings(), **ANSWER), other))


def test_one_version_with_two_answers(file, refusal):
    again = {**ANSWER, "peak_reserved_bytes": 10 * MIB}
    told = refusal(file(line(settings(), **ANSWER)), file(line(settings(), minute=1, **again), name="again"))
    assert "another answer of dry_run 1" in told
    assert MEMBER in told


def test_no_lines(file, refusal):
    assert "no line" in refusal(file())


def test_half_a_line(refusal, tmp_path):
    path = tmp_path / "torn" / "panel" / "predictions.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(line(settings(), **ANSWER)))
    assert "line feed" in refusal(tmp_path / "torn")


def test_the_same_file_in_two_archives_counts_once(file, pack_runs, tmp_path):
    lines = line(settings(), **ANSWER), line(settings(actor_micro_batch=2), **ANSWER)
    views = reduce_archives(pack_runs(file(*lines), file(*lines, name="again")), tmp_path / "out")
    assert {view.name: view.rows for view in views if view.rows} == {"predictions": 2}
