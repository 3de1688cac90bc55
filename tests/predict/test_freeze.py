"""Frozen predictions: what a line says, that they are written once, and what a plan or an archive holds."""

import json
from pathlib import Path

import pytest
from fitproof.errors import UsageError
from fitproof.evidence.pack import pack
from fitproof.predict.batch import predict_all
from fitproof.predict.cases import Case, Machine, archived, machine, planned
from fitproof.predict.freeze import freeze
from fitproof.reduce.ingest import ArchiveFile
from fitproof.reduce.reduction import reduce_archives
from fitproof.runner.plan import Slot
from fitproof.schema.canonical import sha256_hex
from fitproof.schema.records import PREDICTED_STAGE, PREDICTION, problems

GOLDEN = Path(__file__).parents[1] / "reduce" / "cases"
H200 = Machine("NVIDIA H200", "2.11", "5.17")


@pytest.fixture
def frozen(tiny, tmp_path):
    """(path, digest, lines) of two frozen configurations, one of which cannot be followed."""
    cases = [Case(tiny(), H200), Case(tiny(rollout_engine="hf_paged"), H200)]
    path, digest = freeze(cases, predict_all([c.settings for c in cases]), tmp_path / "frozen" / "panel", "h200")
    return path, digest, [json.loads(line) for line in path.read_text().splitlines()]


def test_every_line_is_a_record_and_the_digest_is_the_files(frozen, tiny):
    path, digest, lines = frozen
    assert sha256_hex(path.read_bytes()) == digest
    assert [problems(line, PREDICTION, "line") for line in lines] == [[], []]
    assert [problems(stage, PREDICTED_STAGE, "stage") for stage in lines[0]["stages"]] == [[]] * len(lines[0]["stages"])
    answer, refused = lines
    assert answer["configuration_id"] == tiny().configuration_id(
        device="NVIDIA H200", torch="2.11", transformers="5.17"
    )
    assert answer["peak_stage"] in {stage["stage"] for stage in answer["stages"]}
    assert refused["refusal"].startswith("rollout_engine=hf_paged")
    assert (refused["label"], refused["stages"], refused["peak_reserved_bytes"]) == (None, [], None)


def test_frozen_predictions_are_written_once(frozen, tiny):
    path, _, _ = frozen
    before = path.read_bytes()
    with pytest.raises(UsageError, match="frozen predictions"):
        freeze([Case(tiny(), H200)], predict_all([tiny()]), path.parent, "h200")
    assert path.read_bytes() == before


def test_nothing_to_freeze_is_said(tmp_path):
    with pytest.raises(UsageError, match="no configuration"):
        freeze([], {}, tmp_path, "h200")
    assert list(tmp_path.iterdir()) == []


def test_they_pack_and_reduce_into_the_view(frozen, tmp_path):
    path, _, _ = frozen
    packed = pack([path.parents[1]], tmp_path / "2026-01-01_h200_predictions.tar.zst", level=1)
    archive = ArchiveFile(path=packed.path, sha256=packed.sha256)
    rows = {view.name: view.rows for view in reduce_archives([archive], tmp_path / "out") if view.rows}
    assert rows == {"predictions": 2}


def test_seeds_of_a_plan_are_one_case_and_the_machine_is_the_profiled_card(tiny):
    slots = [Slot(settings=tiny(), seed=seed, estimate_seconds=1) for seed in (0, 1)]
    on = machine("h200", None, "5.17.0")
    assert on == H200  # torch of the profile
    assert planned(slots, on) == [Case(tiny(), on)]
    assert machine("h200", "2.13.0+cpu", "5.20").torch == "2.13"
    for torch in ("new", "2"):
        with pytest.raises(UsageError, match="no version"):
            machine("h200", torch, "5.17")


def test_cases_of_an_archive_are_those_measured_on_the_card(tmp_path):
    for number, case in enumerate(("predicted", "cpu")):
        [folder, *_] = sorted((GOLDEN / case / "archives").iterdir())
        pack([folder], tmp_path / f"2026-01-0{number + 1}_gpu_{case}.tar.zst", level=1)
    found = archived(sorted(tmp_path.glob("*.tar.zst")), "h200")
    assert {case.machine for case in found} == {Machine("NVIDIA H200", "2.13", "5.17")}
    assert sorted((c.settings.capacity_mib, c.settings.actor_micro_batch) for c in found) == [
        (9_800, 1), (9_900, 1), (16_384, 1), (16_384, 4),
    ]  # fmt: skip
