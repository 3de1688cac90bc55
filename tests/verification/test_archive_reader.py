"""The verification house's own archive reader: sees what was packed, and refuses what the release did not publish."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest
import zstandard

from benchmarks import synthetic
from verification.archives import ArchiveError, attempts, members


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, bytes]:
    root = tmp_path_factory.mktemp("runs")
    synthetic.write_panel(root, attempts=6, samples=10)
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def _archive(path: Path, files: dict[str, bytes], listed: dict[str, bytes] | None = None) -> str:
    """Write an archive of `files` whose MEMBERS.sha256 lists `listed`; returns its digest."""
    listing = "".join(f"{hashlib.sha256(d).hexdigest()}  {n}\n" for n, d in (listed or files).items())
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, data in {"MEMBERS.sha256": listing.encode(), **files}.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    data = zstandard.ZstdCompressor(level=3).compress(buffer.getvalue())
    path.write_bytes(data)
    return hashlib.sha256(data).hexdigest()


def test_every_member_and_attempt_is_read(tmp_path, files):
    digest = _archive(tmp_path / "a.tar.zst", files)
    assert dict(members(tmp_path / "a.tar.zst", sha256=digest)).keys() == {"MEMBERS.sha256", *files}
    panels = {}
    found = list(attempts(tmp_path / "a.tar.zst", sha256=digest, panels=panels))
    assert len(found) == 6
    assert sum(a.result is None for a in found) == 1
    assert all(a.trial["slot_id"] == a.slot_id and a.memory_csv.count(b"\n") == 11 for a in found)
    assert len(panels["synthetic-000"].plan["slots"]) == 6
    assert len(panels["synthetic-000"].ledger) == 11


def test_another_digest_is_refused_before_reading(tmp_path, files):
    _archive(tmp_path / "a.tar.zst", files)
    with pytest.raises(ArchiveError, match="the release says 0000"):
        list(members(tmp_path / "a.tar.zst", sha256="0" * 64))


def test_changed_missing_and_unlisted_members_are_refused(tmp_path, files):
    name = next(n for n in files if n.endswith("result.json"))
    result = {**json.loads(files[name]), "wall_ns": 1}
    changed = {**files, name: json.dumps(result).encode()}
    without = {n: d for n, d in files.items() if n != name}
    for archived, listed, message in (
        (changed, files, "not listed"),
        (without, files, "not there"),
        (files, without, "not listed"),
    ):
        digest = _archive(tmp_path / "a.tar.zst", archived, listed)
        with pytest.raises(ArchiveError, match=message):
            list(members(tmp_path / "a.tar.zst", sha256=digest))


def test_a_line_cut_by_a_kill_says_nothing(tmp_path, files):
    name = next(n for n in files if n.endswith("events.jsonl"))
    whole = files[name].count(b"\n")
    digest = _archive(tmp_path / "a.tar.zst", {**files, name: files[name] + b'{"t_ns": 1, "ev'})
    folder = name.rsplit("/", 1)[0]
    found = attempts(tmp_path / "a.tar.zst", sha256=digest, panels={})
    events = next(a.events for a in found if f"{a.panel}/{a.slot_id}/attempt-{a.number}" == folder)
    assert len(events) == whole
