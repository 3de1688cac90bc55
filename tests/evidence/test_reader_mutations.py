"""Thousands of damaged archives: refused, or harmless. Seeded, so a failure can be run again by its number."""

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zstandard
from evidence_craft import FILES, compress, good_tar, listing, member, read_all, sha256, tar_of
from fitproof.errors import EvidenceError

EACH = 1000
NAMES = sorted(FILES)

_writes: list[str] | None = None


def _watch(event: str, arguments: tuple) -> None:
    """Audit hook: note every call that changes a file system while `_writes` is a list."""
    if _writes is None:
        return
    is_write = event == "open" and bool(arguments[2] & 0o1103)  # O_WRONLY, O_RDWR, O_CREAT, O_TRUNC
    if is_write or event.startswith(("os.mkdir", "os.rename", "os.link", "os.symlink", "os.remove", "os.chmod")):
        _writes.append(f"{event} {arguments}")


sys.addaudithook(_watch)


@contextmanager
def no_writes() -> Iterator[None]:
    global _writes
    _writes = []
    try:
        yield
        assert _writes == []
    finally:
        _writes = None


def damaged(data: bytes, rng: random.Random) -> bytes:
    """`data` with one to three random edits."""
    edited = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at = rng.randrange(len(edited) + 1)
        length = rng.choice((1, 2, 8, 512, rng.randrange(1, 2000)))
        kind = rng.randrange(8)
        if kind <= 1 and at < len(edited):
            edited[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del edited[at : at + length]
        elif kind == 3:
            edited[at:at] = rng.randbytes(length)
        elif kind == 4:
            edited[at:at] = edited[at : at + length]
        elif kind == 5:
            edited[at : at + length] = bytes(len(edited[at : at + length]))
        elif kind == 6:
            source = rng.randrange(len(edited) + 1)
            edited[at : at + length] = edited[source : source + length]
        else:
            edited[at:] = rng.randbytes(rng.choice((0, 0, 3)))
    return bytes(edited)


def damaged_tar(tar: bytes, rng: random.Random) -> bytes:
    """A tar with random edits, or with its blocks deleted, doubled, swapped or emptied."""
    kind = rng.randrange(6)
    if kind < 3:
        return damaged(tar, rng)
    blocks = [tar[i : i + 512] for i in range(0, len(tar), 512)]
    used = len(blocks) - next(i for i, b in enumerate(reversed(blocks)) if any(b))
    a, b = rng.randrange(used + 2), rng.randrange(used + 2)
    if kind == 3:
        blocks[a], blocks[b] = blocks[b], blocks[a]
    elif kind == 4:
        blocks[a:a] = blocks[b : b + rng.randrange(1, 4)]
    else:
        del blocks[a : a + rng.randrange(1, 4)]
    return b"".join(blocks)


def outcome(path: Path, archive: bytes, **expected: object) -> dict[str, bytes] | None:
    """The decoded members, or None if the archive was refused; any other exception is a crash."""
    path.write_bytes(archive)
    with no_writes():
        try:
            return read_all(path, **expected)
        except EvidenceError:
            return None


def changed_member(rng: random.Random) -> tuple[bytes, dict[str, bytes]]:
    """(tar, files) with one member's data, or name, changed and MEMBERS.sha256 made to agree."""
    files = dict(FILES)
    name = rng.choice(NAMES)
    if rng.randrange(3):
        files[name] = damaged(files[name], rng)
        return good_tar(files), files
    new_name = "".join(
        rng.choice(["a", "B", "/", "..", ".", "\\", "é", "e\u0301", "\x01", "grpo", " "]) for _ in range(5)
    )
    files[new_name] = files.pop(name)
    order = list(files) if rng.randrange(2) else sorted(files, key=str.encode)
    return tar_of([member(n, files[n]) for n in order], listing(files)), files


def check(count: int, one: Callable[[random.Random], tuple[bool, str]]) -> dict[str, int]:
    """Run one mutation after another; `one` says whether the outcome was right, and which it was."""
    seen: dict[str, int] = {}
    for seed in range(count):
        is_right, what = one(random.Random(seed))
        assert is_right, f"seed {seed}: {what}"
        seen[what] = seen.get(what, 0) + 1
    return seen


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "2026-12-01_cpu_mutant.tar.zst"


def test_stale_sidecar(path: Path) -> None:
    archive = compress(good_tar(), level=19)

    def one(rng: random.Random) -> tuple[bool, str]:
        mutant = damaged(archive, rng)
        found = outcome(path, mutant, expected_sha256=sha256(archive))
        return (found is None) == (mutant != archive), "refused" if found is None else "unchanged"

    assert check(EACH, one)["refused"] > EACH * 0.9


def test_compressed_bytes_changed_and_outer_digests_recomputed(path: Path) -> None:
    archive = compress(good_tar(), level=19)

    def one(rng: random.Random) -> tuple[bool, str]:
        mutant = damaged(archive, rng)
        try:
            tar = zstandard.ZstdDecompressor().decompress(mutant, max_output_size=1 << 20)
        except zstandard.ZstdError:
            tar = None
        found = outcome(
            path, mutant, expected_size=len(mutant), expected_tar_sha256=None if tar is None else sha256(tar)
        )
        return found in (None, FILES), "refused" if found is None else "equal"

    assert check(EACH, one)["refused"] > EACH * 0.9


def test_tar_changed_recompressed_and_outer_digests_recomputed(path: Path) -> None:
    tar = good_tar()

    def one(rng: random.Random) -> tuple[bool, str]:
        mutant = damaged_tar(tar, rng)
        archive = compress(mutant, write_content_size=bool(rng.randrange(2)))
        found = outcome(path, archive, expected_size=len(archive), expected_tar_sha256=sha256(mutant))
        return found in (None, FILES), "refused" if found is None else "equal"

    seen = check(EACH, one)
    assert seen["refused"] > EACH * 0.7, seen


def test_member_changed_and_every_digest_recomputed(path: Path) -> None:
    def one(rng: random.Random) -> tuple[bool, str]:
        mutant, files = changed_member(rng)
        found = outcome(path, compress(mutant), expected_tar_sha256=sha256(mutant))
        return found in (None, files), "refused" if found is None else "changed value"

    seen = check(EACH, one)
    assert seen["changed value"] > EACH * 0.6, seen
    assert seen["refused"] > EACH * 0.1, seen
