"""verify: a good tree passes, and everything that is wrong with a bad one is said at once."""

import dataclasses
from pathlib import Path

import pytest
from evidence_craft import compress, put, sha256, unpacked
from evidence_runs import tree
from evidence_tree import ARCHIVES, write_manifest, write_release
from fitproof.evidence import verify as verify_module
from fitproof.evidence.release import read_release
from fitproof.evidence.verify import VerifyReport, verify


def problems(root: Path) -> dict[str, str]:
    """Subject -> rendered problem of a tree that must fail; also that verify changed nothing."""
    before = tree(root)
    report = verify(root)
    assert tree(root) == before
    assert not report.ok
    assert list(report.problems) == sorted(report.problems)
    return {p.subject: str(p) for p in report.problems}


def archive(root: Path, index: int = 0) -> Path:
    return root / "releases" / ARCHIVES[index]


def test_a_good_tree(root: Path) -> None:
    before = tree(root)
    calls: list[tuple[int, int]] = []
    report = verify(root, progress=lambda done, total: calls.append((done, total)))
    assert isinstance(report, VerifyReport)
    assert (report.ok, report.problems, report.notes) == (True, (), ())
    assert [(a.name, a.ok) for a in report.archives] == [(n, True) for n in ARCHIVES]
    assert [a.members for a in report.archives] == [16, 1]
    assert report.archives[0].bytes == archive(root).stat().st_size
    assert report.archives[0].tar_bytes == len(unpacked(archive(root))[0])
    assert calls[-1] == (2, 2)
    assert tree(root) == before


def test_other_code_is_a_note(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_module, "code_digest", lambda: "f" * 64)
    report = verify(root)
    assert report.ok
    assert ["f" * 64 in note for note in report.notes] == [True]


def test_every_problem_is_collected(root: Path) -> None:
    (root / "README.md").write_text("changed")
    (root / "views" / "trials.parquet").unlink()
    (root / "views" / "extra.parquet").write_bytes(b"x")
    archive(root).write_bytes(archive(root).read_bytes() + b"x")
    Path(str(archive(root, 1)) + ".sha256").write_text("junk\n")
    found = problems(root)
    wanted = {"README.md", "views/trials.parquet", "views/extra.parquet", ARCHIVES[0], ARCHIVES[1] + ".sha256"}
    assert wanted <= found.keys()
    report = verify(root)
    assert [a.ok for a in report.archives] == [False, False]
    assert report.archives[0].members is None


def test_one_flipped_bit_in_an_archive(root: Path) -> None:
    data = bytearray(archive(root).read_bytes())
    data[len(data) // 2] ^= 4
    archive(root).write_bytes(data)
    assert "SHA-256" in problems(root)[ARCHIVES[0]]


def test_a_changed_archive_with_sidecar_and_manifest_made_to_agree(root: Path) -> None:
    tar, _ = unpacked(archive(root))
    put(root / "releases", compress(tar), ARCHIVES[0])
    write_manifest(root)
    found = problems(root)
    assert found.keys() == {ARCHIVES[0], ARCHIVES[0] + ".sha256"}
    assert "release.json" in found[ARCHIVES[0] + ".sha256"]


def test_a_member_changed_and_every_outer_digest_made_to_agree(root: Path) -> None:
    tar, members = unpacked(archive(root))
    at = members[-1].offset_data
    changed = tar[:at] + bytes([tar[at] ^ 1]) + tar[at + 1 :]
    put(root / "releases", compress(changed), ARCHIVES[0])
    release = read_release(root)
    data = archive(root).read_bytes()
    entry = dataclasses.replace(release.archives[0], bytes=len(data), sha256=sha256(data), tar_sha256=sha256(changed))
    write_release(root, dataclasses.replace(release, archives=(entry, release.archives[1])))
    assert f"{ARCHIVES[0]}: member {members[-1].name}" in problems(root)


@pytest.mark.parametrize(
    "change", [{"attempts": 3}, {"members": 15}, {"panels": ("ppo",)}, {"tar_sha256": "0" * 64}, {"bytes": 1}]
)
def test_archive_facts_in_release_json(root: Path, change: dict[str, object]) -> None:
    release = read_release(root)
    entry = dataclasses.replace(release.archives[0], **change)
    write_release(root, dataclasses.replace(release, archives=(entry, release.archives[1])))
    assert problems(root).keys() == {ARCHIVES[0]}


def test_view_facts_in_release_json(root: Path) -> None:
    release = read_release(root)
    files = (dataclasses.replace(release.views[1].files[0], bytes=1),)
    views = (release.views[0], dataclasses.replace(release.views[1], files=files))
    write_release(root, dataclasses.replace(release, views=views))
    assert problems(root).keys() == {"views/trials.parquet"}


def test_evidence_that_release_json_does_not_know(root: Path) -> None:
    release = read_release(root)
    write_release(root, dataclasses.replace(release, archives=release.archives[:1], views=release.views[1:]))
    found = problems(root)
    assert found.keys() == {
        f"releases/{ARCHIVES[1]}", f"releases/{ARCHIVES[1]}.sha256",
        "views/memory_samples/a.parquet", "views/memory_samples/b.parquet",
    }  # fmt: skip
    assert all("not in release.json" in text for text in found.values())


def test_an_archive_that_is_gone(root: Path) -> None:
    archive(root).unlink()
    found = problems(root)
    assert {ARCHIVES[0], f"releases/{ARCHIVES[0]}"} <= found.keys()


def test_an_lfs_pointer(root: Path) -> None:
    archive(root).write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 1\n")
    assert "git lfs pull" in problems(root)[ARCHIVES[0]]
    assert "git lfs pull" in problems(root)[f"releases/{ARCHIVES[0]}"]


def test_an_unknown_schema_version_does_not_end_the_check(root: Path) -> None:
    path = root / "release.json"
    path.write_text(path.read_text().replace('"schema_version": 1', '"schema_version": 9'))
    write_manifest(root)
    data = bytearray(archive(root).read_bytes())
    data[-1] ^= 1
    archive(root).write_bytes(data)
    found = problems(root)
    assert "schema_version 9 is unknown" in found["release.json"]
    assert "SHA-256" in found[ARCHIVES[0]]  # against its sidecar


def test_without_any_digest_an_archive_stays_closed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "release.json").unlink()
    for name in ARCHIVES:
        (root / "releases" / (name + ".sha256")).unlink()
    monkeypatch.setattr(verify_module, "read_members", None)
    assert {"release.json", ARCHIVES[0] + ".sha256"} <= problems(root).keys()


def test_an_empty_folder(tmp_path: Path) -> None:
    report = verify(tmp_path)
    assert not report.ok
    assert report.archives == ()
