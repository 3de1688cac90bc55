"""Raw record to loaded view through the command alone: pack, build, verify, reproduce, and one changed byte."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import fitproof
import pytest
from fitproof.hub.card import check_card
from fitproof.hub.croissant import check_croissant
from fitproof.schema.views import VIEWS

from benchmarks import synthetic

ROOT = Path(__file__).parents[2]
ATTEMPTS = 21


def call(*arguments: object, cwd: Path) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "fitproof", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True)


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A release of one synthetic archive, made by `pack` and `build`."""
    root = tmp_path_factory.mktemp("release")
    runs = tmp_path_factory.mktemp("runs")
    synthetic.write_panel(runs, attempts=ATTEMPTS, samples=60)
    (root / "releases").mkdir()
    packed = call("pack", runs, "-o", root / "releases" / "2026-12-01_synthetic_panel.tar.zst", "--json", cwd=runs)
    assert packed.returncode == 0, packed.stderr
    assert json.loads(packed.stdout)["attempts"] == ATTEMPTS
    for name in ("LICENSE", "RIGHTS.md", "CITATION.cff", "CHANGELOG.md"):
        shutil.copy(ROOT / name, root)
    done = call("build", "--root", root, "--json", cwd=runs)
    assert done.returncode == 0, done.stderr
    assert {row["name"] for row in json.loads(done.stdout)} == set(VIEWS)
    return root


@pytest.fixture
def release(built, tmp_path) -> Path:
    return shutil.copytree(built, tmp_path / "copy")


def test_reproduce_gives_the_promised_json(built):
    done = call("reproduce", "--json", cwd=built)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert list(report) == ["ok", "views", "seconds"]
    assert report["ok"] is True
    assert {tuple(view) for view in report["views"]} == {("name", "rows", "identical")}
    assert {view["name"] for view in report["views"]} == set(VIEWS)
    assert all(view["identical"] for view in report["views"])
    assert {view["name"]: view["rows"] for view in report["views"]}["attempts"] == ATTEMPTS


def test_verify_and_reproduce_say_ok_to_a_person(built):
    for verb, words in (("verify", "ok: 1 archives"), ("reproduce", "views identical")):
        done = call(verb, cwd=built)
        assert done.returncode == 0
        assert words in done.stderr


def test_card_and_croissant_are_current_and_views_load(built):
    assert check_card(built) == []
    assert check_croissant(built, tuple(VIEWS.values())) == []
    assert fitproof.load("attempts", root=built).count("*").fetchall() == [(ATTEMPTS,)]


def test_sha256sum_agrees_with_the_manifest(built):
    subprocess.run(["sha256sum", "--check", "--quiet", "MANIFEST.sha256"], cwd=built, check=True, capture_output=True)


@pytest.mark.parametrize("name", ["releases/*.tar.zst", "views/trials.parquet", "release.json", "MANIFEST.sha256"])
def test_one_changed_byte_is_named(release, name):
    [path] = release.glob(name)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    subject = path.name if name.startswith("releases") else name
    verified = call("verify", "--json", cwd=release)
    assert verified.returncode == 1
    assert subject in json.dumps(json.loads(verified.stdout)["problems"])
    reproduced = call("reproduce", cwd=release)
    assert reproduced.returncode == 1
    assert subject in reproduced.stderr
    assert "Traceback" not in reproduced.stderr


def test_packing_over_other_bytes_is_refused(built, tmp_path):
    synthetic.write_panel(tmp_path, attempts=6, samples=5, seed=7)
    [archive] = (built / "releases").glob("*.tar.zst")
    before = archive.read_bytes()
    done = call("pack", tmp_path, "-o", archive, cwd=tmp_path)
    assert done.returncode == 1
    assert "write-once" in done.stderr
    assert archive.read_bytes() == before
