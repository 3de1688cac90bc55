"""release.json: one text for one release, and nothing else is accepted."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from evidence_craft import sha256
from evidence_runs import SLOTS, write_attempt
from evidence_tree import ARCHIVES, TRIALS, build_tree
from fitproof.errors import EvidenceError, UsageError
from fitproof.evidence.pack import pack
from fitproof.evidence.release import Release, archive_entry, dump_release, load_release, read_release
from fitproof.evidence.root import find_root


@pytest.fixture
def release(tmp_path: Path) -> Release:
    return build_tree(tmp_path / "published", tmp_path)


def test_dump_and_load_are_inverse(release: Release) -> None:
    text = dump_release(release)
    assert load_release(text.encode()) == release
    assert dump_release(load_release(text.encode())) == text
    assert text == json.dumps(json.loads(text), sort_keys=True, indent=1, ensure_ascii=False) + "\n"
    assert "Größe" in text


def test_the_keys_that_others_read(release: Release) -> None:
    value = json.loads(dump_release(release))
    assert value.keys() == {
        "schema_version", "tag", "parent_commit", "code_digest", "writer", "tools", "archives", "views",
    }  # fmt: skip
    assert value["archives"][0].keys() == {
        "name", "bytes", "sha256", "tar_sha256", "panels", "device", "attempts", "members",
    }  # fmt: skip
    view = value["views"][1]
    assert view.keys() == {"name", "rows", "content_sha256", "files", "schema"}
    assert view["files"][0].keys() == {"path", "bytes", "sha256"}
    assert view["schema"]["key"] == ["trial_id"]
    assert view["schema"]["columns"][1] == {
        "name": "peak_reserved_bytes", "type": "BIGINT", "unit": "bytes", "null": "where the run failed",
        "meaning": "Größe.",
    }  # fmt: skip


def test_archive_entries_say_what_was_packed(release: Release, tmp_path: Path) -> None:
    panel, predictions = release.archives
    assert (panel.panels, panel.attempts, panel.members, panel.device) == (("grpo",), 2, 16, "cpu")
    assert (predictions.panels, predictions.attempts, predictions.members, predictions.device) == ((), 0, 1, None)
    data = (tmp_path / "published" / "releases" / panel.name).read_bytes()
    assert (panel.bytes, panel.sha256) == (len(data), sha256(data))


def test_packing_and_reading_agree(tmp_path: Path) -> None:
    write_attempt(tmp_path / "run", SLOTS[0], 0)
    write_attempt(tmp_path / "run", SLOTS[0], 5, panel="ppo")
    (tmp_path / "out").mkdir()
    packed = pack([tmp_path / "run"], tmp_path / "out" / ARCHIVES[0])
    entry = archive_entry(packed.path)
    for field in ("bytes", "sha256", "tar_sha256", "members", "panels", "attempts"):
        assert getattr(entry, field) == getattr(packed, field)


def edited(release: Release, edit: Callable[[dict], object]) -> bytes:
    value = json.loads(dump_release(release))
    edit(value)
    return (json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False) + "\n").encode()


EDITS: dict[str, tuple[Callable[[dict], object], str]] = {
    "unknown version": (lambda v: v.update(schema_version=2), "schema_version 2 is unknown"),
    "version as text": (lambda v: v.update(schema_version="1"), "is unknown"),
    "version as float": (lambda v: v.update(schema_version=1.0), "expected int"),
    "version as bool": (lambda v: v.update(schema_version=True), "expected int"),
    "no version": (lambda v: v.pop("schema_version"), "is unknown"),
    "missing key": (lambda v: v.pop("tag"), "missing key tag"),
    "unknown key": (lambda v: v.update(note=""), "unknown key 'note'"),
    "missing archive key": (lambda v: v["archives"][0].pop("device"), "missing key device"),
    "unknown archive key": (lambda v: v["archives"][1].update(x=1), r"archives\[1\]: unknown key 'x'"),
    "unknown column key": (lambda v: v["views"][0]["schema"]["columns"][0].update(x=1), "unknown key 'x'"),
    "missing schema key": (lambda v: v["views"][0]["schema"].pop("split"), "missing key split"),
    "null where none may be": (lambda v: v.update(tag=None), "tag is None"),
    "number for text": (lambda v: v.update(tag=1), "tag is 1"),
    "text for number": (lambda v: v["archives"][0].update(bytes="1"), "expected int"),
    "negative": (lambda v: v["archives"][0].update(bytes=-1), "expected int"),
    "bool for number": (lambda v: v["archives"][0].update(members=True), "expected int"),
    "too large": (lambda v: v["views"][0].update(rows=2**63), "expected int"),
    "object for list": (lambda v: v.update(archives={}), "archives is dict"),
    "tools": (lambda v: v["tools"].update(python=3), "tools.python is 3"),
    "digest in upper case": (lambda v: v["archives"][0].update(sha256="A" * 64), "lower-case"),
    "short digest": (lambda v: v["views"][0]["files"][0].update(sha256="a"), "lower-case"),
    "short content digest": (lambda v: v["views"][0].update(content_sha256=""), "lower-case"),
    "code digest": (lambda v: v.update(code_digest="x"), "code_digest"),
    "commit": (lambda v: v.update(parent_commit="main"), "parent_commit"),
    "archive name": (lambda v: v["archives"][0].update(name="../x.tar.zst"), "DATE_DEVICE_SUBJECT"),
    "archive twice": (lambda v: v["archives"].append(v["archives"][1]), "archives are not sorted"),
    "archive order": (lambda v: v["archives"].reverse(), "archives are not sorted"),
    "view order": (lambda v: v["views"].reverse(), "views are not sorted"),
    "view file elsewhere": (lambda v: v["views"][0]["files"][0].update(path="README.md"), "not below views/"),
    "view file outside": (lambda v: v["views"][0]["files"][0].update(path="views/../x"), "not below views/"),
    "schema of another view": (lambda v: v["views"][0].update(schema=v["views"][1]["schema"]), "has the schema of"),
    "column type": (lambda v: v["views"][0]["schema"]["columns"][0].update(type="FLOAT"), "FLOAT"),
    "key column": (lambda v: v["views"][0]["schema"].update(key=["absent"]), "absent"),
}


@pytest.mark.parametrize("name", EDITS)
def test_contents_that_are_refused(release: Release, name: str) -> None:
    edit, message = EDITS[name]
    with pytest.raises(EvidenceError, match=message) as caught:
        load_release(edited(release, edit))
    assert caught.value.subject == "release.json"


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"null", b"[]", b"1", b"NaN", b"\xff", b"[" * 10**5, b'{"schema_version":1,"schema_version":1}',
     b"9" * 5000, b"version https://git-lfs.github.com/spec/v1\n"],
    ids=range(11),
)  # fmt: skip
def test_texts_that_are_no_release(data: bytes) -> None:
    with pytest.raises(EvidenceError, match=r"release\.json"):
        load_release(data)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d[:-1],
        lambda d: d + b"\n",
        lambda d: d.replace(b"\n", b"\r\n"),
        lambda d: json.dumps(json.loads(d), sort_keys=True).encode(),
        lambda d: json.dumps(dict(reversed(json.loads(d).items())), indent=1, ensure_ascii=False).encode() + b"\n",
        lambda d: d.replace("ö".encode(), b"\\u00f6"),
        lambda d: d.replace(b'"bytes": ', b'"bytes":  '),
    ],
)
def test_another_spelling_of_the_same_content(
    release: Release, tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    root = tmp_path / "published"
    assert read_release(root) == release
    changed = change((root / "release.json").read_bytes())
    (root / "release.json").write_bytes(changed)
    assert load_release(changed) == release
    with pytest.raises(EvidenceError, match="from byte"):
        read_release(root)


def test_the_first_release_has_no_parent(release: Release) -> None:
    first = dataclasses.replace(release, parent_commit=None)
    assert load_release(dump_release(first).encode()) == first


def test_a_release_is_checked_when_it_is_made(release: Release) -> None:
    with pytest.raises(ValueError, match="not sorted"):
        dataclasses.replace(release, archives=release.archives[::-1])
    with pytest.raises(ValueError, match="schema of"):
        dataclasses.replace(release, views=(dataclasses.replace(release.views[0], schema=TRIALS),))


def test_find_root(release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = (tmp_path / "published").resolve()
    assert find_root(root) == root
    assert find_root(root / "views" / "memory_samples") == root
    monkeypatch.chdir(root / "releases")
    assert find_root() == root
    with pytest.raises(UsageError, match="--root"):
        find_root(tmp_path)
