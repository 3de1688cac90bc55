"""MANIFEST.sha256: its one form, and every difference between it and the tree."""

import os
import subprocess
from pathlib import Path

import pytest
from evidence_craft import sha256
from evidence_runs import tree
from fitproof.errors import EvidenceError
from fitproof.evidence.manifest import FIXED, MANIFEST, check_manifest, manifest_text


def only(problems: list) -> object:
    assert len(problems) == 1, problems
    return problems[0]


def rewrite(root: Path, old: bytes, new: bytes) -> None:
    data = (root / MANIFEST).read_bytes()
    assert old in data
    (root / MANIFEST).write_bytes(data.replace(old, new, 1))


def test_the_text_lists_every_published_file(root: Path) -> None:
    (root / "pyproject.toml").write_text("not evidence")
    files = {n: d for n, d in tree(root).items() if n not in (MANIFEST, "pyproject.toml")}
    lines = [f"{sha256(files[n])}  {n}\n" for n in sorted(files, key=str.encode)]
    assert manifest_text(root) == "".join(lines)
    assert {"releases/README.md", "views/memory_samples/a.parquet", *FIXED} <= files.keys()
    assert check_manifest(root) == []


def test_sha256sum_accepts_it(root: Path) -> None:
    subprocess.run(["sha256sum", "--strict", "-c", MANIFEST], cwd=root, check=True, capture_output=True)


def test_a_changed_file(root: Path) -> None:
    (root / "views" / "trials.parquet").write_bytes(b"changed")
    problem = only(check_manifest(root))
    assert problem.subject == "views/trials.parquet"
    assert sha256(b"changed") in problem.found
    assert MANIFEST in problem.expected


def test_a_file_that_is_not_there(root: Path) -> None:
    (root / "views" / "trials.parquet").unlink()
    assert only(check_manifest(root)).subject == "views/trials.parquet"


def test_a_file_that_is_not_listed(root: Path) -> None:
    (root / "views" / "extra.parquet").write_bytes(b"x")
    problem = only(check_manifest(root))
    assert (problem.subject, problem.found) == ("views/extra.parquet", f"not listed in {MANIFEST}")


@pytest.mark.parametrize("name", FIXED)
def test_every_fixed_file_is_needed_even_if_unlisted(root: Path, name: str) -> None:
    (root / name).unlink()
    rewrite(root, f"{sha256((name + chr(10)).encode())}  {name}\n".encode(), b"") if name != "release.json" else None
    assert name in [p.subject for p in check_manifest(root)]
    with pytest.raises(EvidenceError, match=name):
        manifest_text(root)


def test_an_absent_manifest(root: Path) -> None:
    (root / MANIFEST).unlink()
    assert only(check_manifest(root)).subject == MANIFEST


def test_a_manifest_that_is_an_lfs_pointer(root: Path) -> None:
    (root / MANIFEST).write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    assert only(check_manifest(root)).hint == "git lfs pull"


def test_a_view_that_is_an_lfs_pointer(root: Path) -> None:
    (root / "views" / "trials.parquet").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    assert only(check_manifest(root)).hint == "git lfs pull"


def reordered(data: bytes) -> bytes:
    first, second, *rest = data.splitlines(keepends=True)
    return b"".join([second, first, *rest])


FORMS = {
    "crlf": lambda d: d.replace(b"\n", b"\r\n"),
    "one crlf": lambda d: d.replace(b"\n", b"\r\n", 1),
    "upper case": lambda d: d[:64].upper() + d[64:],
    "binary mark": lambda d: d.replace(b"  ", b" *", 1),
    "order": reordered,
    "duplicate": lambda d: d.splitlines(keepends=True)[0] + d,
    "no final line feed": lambda d: d[:-1],
    "empty line at the end": lambda d: d + b"\n",
    "empty line in front": lambda d: b"\n" + d,
    "comment": lambda d: b"# files\n" + d,
    "one space": lambda d: d.replace(b"  ", b" ", 1),
    "byte order mark": lambda d: b"\xef\xbb\xbf" + d,
    "not utf-8": lambda d: d + b"\xff\n",
    "another digest of the same file": lambda d: d + b"0" * 64 + b"  views/trials.parquet\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_that_sha256sum_forgives_or_not(root: Path, form: str) -> None:
    path = root / MANIFEST
    changed = FORMS[form](path.read_bytes())
    assert changed != path.read_bytes()
    path.write_bytes(changed)
    assert any(p.subject.startswith(MANIFEST) for p in check_manifest(root))


def test_an_empty_manifest(root: Path) -> None:
    (root / MANIFEST).write_bytes(b"")
    assert len(check_manifest(root)) == len(tree(root)) - 1


def test_names_in_a_manifest_are_never_opened(root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"x")
    for name in ("../secret", str(tmp_path / "secret"), "views/../../secret"):
        rewrite(root, b"", f"{sha256(b'x')}  {name}\n".encode())
        assert name in [p.subject for p in check_manifest(root) if "not there" in p.found]


def test_what_cannot_be_listed(root: Path) -> None:
    os.mkfifo(root / "views" / "pipe")
    (root / "views" / "a\nb").write_text("x")
    (root / "views" / "Trials.parquet").write_text("x")
    (root / "releases" / ".x.tar.zst.tmp").write_text("x")
    text = "\n".join(str(p) for p in check_manifest(root))
    for part in ("views/pipe", r"views/a\nb", "take for one", "interrupted command"):
        assert part in text
    with pytest.raises(EvidenceError, match="cannot be written"):
        manifest_text(root)


def test_problems_are_sorted_and_all_there(root: Path) -> None:
    for name in ("README.md", "views/trials.parquet", "releases/README.md"):
        (root / name).write_text("changed")
    assert [p.subject for p in check_manifest(root)] == ["README.md", "releases/README.md", "views/trials.parquet"]
