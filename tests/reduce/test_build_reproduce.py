"""A release built from archives reproduces; a changed file is named, with the row and column that differ."""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fitproof.errors import EvidenceError, UsageError
from fitproof.evidence.manifest import FIXED
from fitproof.evidence.pack import pack
from fitproof.evidence.verify import verify
from fitproof.reduce.build import build
from fitproof.reduce.reproduce import reproduce
from golden import pack_case

from benchmarks import synthetic


@pytest.fixture(scope="module")
def release(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("release")
    (root / "releases").mkdir()
    for name in FIXED:
        if name not in ("README.md", "release.json"):
            (root / name).write_text(f"{name}\n", encoding="utf-8")
    for index in range(2):
        run = tmp_path_factory.mktemp("run")
        synthetic.write_panel(run, index, attempts=6, samples=60)
        pack([run], root / f"releases/2026-01-0{index + 1}_synthetic_{index}.tar.zst", level=1)
    for case in ("predicted", "opd_workloads"):  # the views that no synthetic panel fills
        pack_case(case, root / "releases")
    build(root, tag="test")
    return root


@pytest.fixture
def copy(release, tmp_path) -> Path:
    return Path(shutil.copytree(release, tmp_path / "release"))


def files(root: Path) -> dict[str, bytes]:
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def test_a_release_verifies_and_reproduces(release):
    assert verify(release).problems == ()
    before = files(release)
    report = reproduce(release)
    assert report.problems == ()
    assert report.ok
    assert all(view.identical and view.rows for view in report.views)
    assert files(release) == before


def test_building_again_changes_nothing_and_removes_stale_files(copy):
    before = files(copy)
    (copy / "views/trials_old.parquet").write_bytes(b"old")
    (copy / "views/memory_samples/2025-01-01_gone_gone.parquet").write_bytes(b"old")
    stale = reproduce(copy)
    assert not stale.ok
    assert any("views/trials_old.parquet" in str(p) for p in stale.problems)
    build(copy, tag="test")
    assert files(copy) == before


def change(path: Path, row: int, column: str, value: object) -> None:
    table = pq.read_table(path)
    rows = table.to_pylist()
    rows[row][column] = value
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)


def messages(root: Path) -> str:
    report = reproduce(root)
    assert not report.ok
    return "\n".join(str(problem) for problem in report.problems)


def test_a_changed_value_is_named(copy):
    path = copy / "views/trials.parquet"
    trial = pq.read_table(path).to_pylist()[3]
    change(path, 3, "peak_reserved_bytes", 1)
    report = reproduce(copy)
    assert [view.name for view in report.views if not view.identical] == ["trials"]
    text = "\n".join(str(problem) for problem in report.problems)
    assert f"row trial_id={trial['trial_id']}: peak_reserved_bytes = 1" in text
    assert f"peak_reserved_bytes = {trial['peak_reserved_bytes']}, as the archives give it" in text


def test_a_change_in_one_of_many_files_is_named(copy):
    path = sorted((copy / "views/memory_samples").iterdir())[1]
    change(path, 5, "stage", "idle")
    assert f"views/memory_samples/{path.name}" in messages(copy)


def test_another_encoding_is_not_identical_and_is_called_that(copy):
    path = copy / "views/attempts.parquet"
    pq.write_table(pq.read_table(path), path, compression="none")
    assert "the same rows in another encoding" in messages(copy)


def test_a_missing_row_a_row_too_many_and_a_missing_file(copy):
    path = copy / "views/attempts.parquet"
    table = pq.read_table(path)
    pq.write_table(table.slice(1), path)
    assert "is missing" in messages(copy)
    rows = [*table.to_pylist(), {**table.to_pylist()[0], "attempt_id": "zz"}]
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
    assert "row attempt_id=zz, which the archives do not give" in messages(copy)
    pq.write_table(pa.concat_tables([table, table]), path)
    assert "some repeated or out of order" in messages(copy)
    path.unlink()
    assert "no such file" in messages(copy)


def test_a_flipped_byte_anywhere_is_found_by_name(copy):
    for name in ("views/devices.parquet", "release.json", "MANIFEST.sha256", "releases/2026-01-01_synthetic_0.tar.zst"):
        path = copy / name
        good = path.read_bytes()
        for at in (0, len(good) // 2, len(good) - 1):
            path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
            assert name in messages(copy), (name, at)
        path.write_bytes(good)
    assert reproduce(copy).ok


def test_a_build_from_bad_evidence_changes_nothing(copy):
    sidecar = copy / "releases/2026-01-01_synthetic_0.tar.zst.sha256"
    text = sidecar.read_text()
    sidecar.write_text(("1" if text[0] == "0" else "0") + text[1:])
    before = files(copy)
    with pytest.raises(EvidenceError):
        build(copy, tag="test")
    assert files(copy) == before


def test_a_build_without_archives_says_what_to_do(tmp_path):
    with pytest.raises(UsageError, match="fitproof pack"):
        build(tmp_path, tag="test")
