"""Regular files, their SHA-256, and the two text files that carry digests: sidecars and Git LFS pointers."""

import hashlib
import os
import re
import stat
from pathlib import Path
from typing import BinaryIO

from fitproof.errors import EvidenceError

LFS_HEAD = b"version https://git-lfs.github.com/spec/"
LFS_HINT = "git lfs pull"
REFETCH_HINT = "get the file again from the published release (a fresh clone or download); nothing was changed here"
CHUNK_BYTES = 1 << 20
MAX_SIDECAR_BYTES = 4096

HEX64 = re.compile(r"[0-9a-f]{64}", re.ASCII)


def open_regular(path: Path, subject: str, *, follow: bool = True) -> BinaryIO:
    """Open for reading. EvidenceError if it is absent or no regular file; `follow=False` refuses symbolic links."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)  # a fifo must not block us
    try:
        fd = os.open(path, flags)
    except OSError as error:
        raise EvidenceError(subject, found=error.strerror or str(error), expected="a readable regular file") from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise EvidenceError(subject, found="a folder, device or pipe", expected="a regular file")
    return os.fdopen(fd, "rb", buffering=0)


def hash_stream(file: BinaryIO) -> tuple[str, int]:
    """(SHA-256, bytes) from the current position to the end."""
    digest, total, buffer = hashlib.sha256(), 0, memoryview(bytearray(CHUNK_BYTES))
    while count := file.readinto(buffer):  # type: ignore[attr-defined]
        digest.update(buffer[:count])
        total += count
    return digest.hexdigest(), total


def hash_file(path: Path, subject: str) -> tuple[str, int]:
    """(SHA-256, bytes) of a regular file. EvidenceError if it cannot be read."""
    with open_regular(path, subject) as file:
        return hash_stream(file)


def is_lfs_pointer(path: Path) -> bool:
    """Whether the file is a Git LFS pointer in place of its content."""
    with open_regular(path, path.name) as file:
        return file.read(len(LFS_HEAD)) == LFS_HEAD


def sidecar_path(archive: Path) -> Path:
    return archive.with_name(archive.name + ".sha256")


def sidecar_text(archive_name: str, sha256: str) -> str:
    """What `sha256sum ARCHIVE > ARCHIVE.sha256` writes, run in the archive's folder."""
    return f"{sha256}  {archive_name}\n"


def read_sidecar(archive: Path) -> str:
    """The SHA-256 that the sidecar states for `archive`. EvidenceError unless the file is exactly its one line."""
    path = sidecar_path(archive)
    with open_regular(path, path.name) as file:
        text = file.read(MAX_SIDECAR_BYTES + 1)
    if text.startswith(LFS_HEAD):
        raise EvidenceError(path.name, found="a Git LFS pointer", expected="one sha256sum line", hint=LFS_HINT)
    sha256 = text[:64].decode("ascii", "replace")
    if not HEX64.fullmatch(sha256) or text != sidecar_text(archive.name, sha256).encode():
        raise EvidenceError(
            path.name,
            found=repr(text[:200].decode("utf-8", "replace")),
            expected=f"one line: 64 lower-case hex digits, two spaces, {archive.name}, LF",
            hint=REFETCH_HINT,
        )
    return sha256
