"""fitproof.load: relations, files per archive, and errors that say what exists."""

import subprocess
import sys

import duckdb
import fitproof
import pytest
from fitproof.errors import CheckFailed, UsageError
from fitproof.hub.load import existing_views, fetch


def test_a_view_comes_as_duckdb_polars_pandas_and_arrow(release):
    trials = fitproof.load("trials", root=release)
    assert trials.fetchall()[0] == ("t0", "c0", "Card", "within_margin", 5)
    assert trials.pl().shape == trials.df().shape == (3, 5)
    assert trials.arrow().read_all().num_rows == 3
    assert trials.pl()["peak_bytes"].to_list() == [5, 7, None]


def test_relations_can_be_joined(release):
    trials = fitproof.load("trials", root=release)
    configurations = fitproof.load("configurations", root=release)
    assert trials is not configurations
    joined = duckdb.sql("SELECT model_id FROM trials JOIN configurations USING (configuration_id)")
    assert len(joined.fetchall()) == 3


def test_memory_samples_is_many_files_in_order(release):
    samples = fitproof.load("memory_samples", root=release)
    assert samples.project("trial_id, t_ns").fetchall() == [("t0", 1), ("t0", 2), ("t1", 1)]


def test_an_unknown_view_lists_what_exists(release):
    with pytest.raises(UsageError, match="attempts, configurations, failures, memory_samples, panel_slots, trials"):
        fitproof.load("trails", root=release)


def test_without_root_the_nearest_ancestor_with_release_json(release, monkeypatch):
    deep = release / "a" / "b"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    assert fitproof.load("trials").count("*").fetchall() == [(3,)]


def test_outside_any_release_the_error_says_how(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"no release\.json(.|\n)*--root"):
        fitproof.load("trials")


def test_an_lfs_pointer_names_the_command(release):
    (release / "views" / "trials.parquet").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\n")
    with pytest.raises(CheckFailed, match="git lfs pull"):
        fitproof.load("trials", root=release)


def test_a_file_that_is_no_parquet_is_refused(release):
    (release / "views" / "trials.parquet").write_bytes(b"")
    with pytest.raises(CheckFailed, match=r"views/trials\.parquet"):
        fitproof.load("trials", root=release)


@pytest.mark.parametrize("place", ["middle", "end"])
def test_a_damaged_file_is_named_by_load_or_by_fetch(release, place):
    path = release / "views" / "trials.parquet"
    data = bytearray(path.read_bytes())
    data[-12:] = b"\xff" * 12 if place == "end" else data[-12:]
    if place == "middle":
        data[4:60] = b"\xff" * 56
    path.write_bytes(data)
    with pytest.raises(CheckFailed, match=r"view trials\n  found:.*\n.*\n  next:     fitproof verify"):
        fetch(fitproof.load("trials", root=release), "trials")


def test_a_folder_without_views_is_said_plainly(tmp_path):
    (tmp_path / "views").mkdir()
    assert existing_views(tmp_path) == []
    with pytest.raises(UsageError, match="nothing has been built here"):
        fitproof.load("trials", root=tmp_path)


def test_import_fitproof_is_light():
    code = "import fitproof, sys; print(sorted({'torch', 'duckdb', 'pyarrow', 'pandas', 'rich'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
