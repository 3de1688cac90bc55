"""Headline numbers, row counts and digests agree on a sound release, and each tampering is named."""

import datetime
import json
import shutil

import duckdb
import pytest

from verification import digests, expected_counts, recompute
from verification.__main__ import main
from verification.release import read_release

TAMPER = {
    "trials": ("peak_reserved_bytes = peak_reserved_bytes + 1", "peak_reserved_bytes ["),
    "attempts": ("device_seconds = device_seconds + 1e-9", "device nanoseconds: "),
    "stage_peaks": ("peak_allocated_bytes = peak_allocated_bytes + 1", "stage peak peak_allocated_bytes ["),
    "configurations": ("label = 'within_margin'", "label ["),
    "predictions": ("is_prospective = NOT is_prospective", "predictions ["),
    "prediction_errors": ("reserved_error = reserved_error * 1.01", "mean reserved error, ppb ["),
    "panel_slots": ("state = 'completed'", "planned slots ["),
}


@pytest.fixture
def copy(published, tmp_path):
    return shutil.copytree(published, tmp_path / "copy")


def test_views_and_archives_agree_exactly(published):
    numbers, lines = recompute.compare(read_release(published))
    assert lines == []
    assert numbers["attempts"] == 42 + 9
    assert numbers["planned slots"] == 42 + 6
    assert numbers["trials"] == 38 + 6
    assert numbers["distinct seeds"] == 3
    assert numbers["samples"] == 38 * 60 + 6 * 6
    assert len(numbers) > 300


@pytest.mark.parametrize("view", sorted(TAMPER))
def test_a_changed_view_disagrees_with_the_archives(copy, view):
    file, (change, message) = copy / "views" / f"{view}.parquet", TAMPER[view]
    with duckdb.connect() as db:
        db.execute(f"CREATE TABLE it AS FROM read_parquet('{file}')")
        db.execute(f"UPDATE it SET {change}")
        db.execute(f"COPY it TO '{file}' (FORMAT parquet)")
    _, lines = recompute.compare(read_release(copy))
    assert any(line.startswith(message) and "from the archives" in line for line in lines), lines[:5]


def test_a_changed_archive_is_not_reduced(copy):
    path = min((copy / "releases").glob("*.tar.zst"))
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    _, lines = recompute.compare(read_release(copy))
    assert len(lines) == 1
    assert path.name in lines[0]
    assert "SHA-256" in lines[0]


def test_row_counts_are_compared_both_ways(published, tmp_path):
    release, path = read_release(published), tmp_path / "row_counts.csv"
    assert all("none were expected" in line for line in expected_counts.differences(release, path))
    day = datetime.date(2026, 1, 2)
    assert expected_counts.write_expected(release, reason="first", date=day, path=path) > 10
    assert expected_counts.differences(release, path) == []
    lines = path.read_text(encoding="utf-8").splitlines()
    assert "attempts,2026-01-01_synthetic_part-0,30,2026-01-02,first" in lines
    path.write_text("\n".join([*lines[:1], "gone,,7,2026-01-02,first", *lines[2:]]).replace(",30,", ",31,") + "\n")
    found = expected_counts.differences(release, path)
    assert "view gone: 7 rows were expected, it is not published" in found
    assert "view attempts, archive 2026-01-01_synthetic_part-0: 30 rows, expected 31 (2026-01-02: first)" in found
    assert "view attempts: 51 rows are published, none were expected" in found


def test_an_unchanged_count_keeps_its_date_and_reason(published, tmp_path):
    release, path = read_release(published), tmp_path / "row_counts.csv"
    expected_counts.write_expected(release, reason="first", date=datetime.date(2026, 1, 2), path=path)
    path.write_text(path.read_text(encoding="utf-8").replace("trials,,44,", "trials,,45,"), encoding="utf-8")
    assert expected_counts.write_expected(release, reason="second", date=datetime.date(2026, 2, 3), path=path) == 1
    text = path.read_text(encoding="utf-8")
    assert "trials,,44,2026-02-03,second" in text
    assert text.count("second") == 1
    with pytest.raises(ValueError, match="reason"):
        expected_counts.write_expected(release, reason=" ", date=datetime.date(2026, 2, 3), path=path)


def test_files_that_are_not_the_listed_ones_are_named(copy):
    assert digests.differences(read_release(copy)) == []
    (copy / "views" / "extra.txt").write_text("x")
    (copy / "README.md").write_text("other\n")
    archive = min((copy / "releases").glob("*.tar.zst"))
    sidecar = archive.with_name(f"{archive.name}.sha256")
    sidecar.write_text(f"{'0' * 64}  {archive.name}\n")
    content = json.loads((copy / "release.json").read_text())
    content["archives"][1]["sha256"] = "1" * 64
    (copy / "release.json").write_text(json.dumps(content))
    found = "\n".join(digests.differences(read_release(copy)))
    for words in ("views/extra.txt: published, not listed", "README.md: SHA-256 is", "release.json: SHA-256 is",
                  f"releases/{sidecar.name}: not the digest in release.json", "give different digests"):  # fmt: skip
        assert words in found


def test_the_command_says_what_agrees_and_what_does_not(published, copy, capsys):
    for verb in ("digests", "checks", "headline"):
        assert main(["--root", str(published), verb]) == 0
        assert capsys.readouterr().out.startswith(f"ok   {verb}: ")
    (copy / "LICENSE").write_text("mine\n")
    assert main(["--root", str(copy), "digests"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("FAIL digests: 1 differences")
    assert "LICENSE" in out
