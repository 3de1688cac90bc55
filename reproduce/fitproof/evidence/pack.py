"""Write one archive from run directories: `fitproof pack DIR... -o ARCHIVE`.

    packed = pack([Path("runs/a"), Path("runs/b")], Path("releases/2026-12-01_h200_core-panel.tar.zst"))

Same files, same bytes: pax tar, members sorted, MEMBERS.sha256 first, no clock, owner or mode from the disk, pinned
compression. Files are read twice (digest, then data) and never held whole; a file that changes in between is an error.
The archive appears under its name only when it is complete and on disk. Needs the standard library and zstandard only.
"""

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import zstandard

from fitproof.errors import EnvironmentLacks, EvidenceError, UsageError
from fitproof.evidence import tarformat
from fitproof.evidence.files import (
    CHUNK_BYTES,
    hash_file,
    hash_stream,
    open_regular,
    read_sidecar,
    sidecar_path,
    sidecar_text,
)
from fitproof.evidence.inputs import Source, collect
from fitproof.evidence.names import MEMBERS, check_archive_name
from fitproof.evidence.reader import MAX_MEMBERS_FILE_BYTES, MAX_TAR_BYTES

LEVEL = 19


@dataclass(frozen=True, kw_only=True, slots=True)
class PackedArchive:
    """What was written. `members` counts without MEMBERS.sha256; `notes` say what was left out and why."""

    path: Path
    bytes: int
    sha256: str
    tar_sha256: str
    members: int
    panels: tuple[str, ...]
    attempts: int
    notes: tuple[str, ...]


def pack(
    run_dirs: Sequence[Path],
    output: Path,
    *,
    level: int = LEVEL,
    progress: Callable[[int, int], None] | None = None,
) -> PackedArchive:
    """Pack run directories and other raw evidence into `output` and write its sidecar.

    `level` is for synthetic archives only: evidence has level 19. `progress(done, total)` gets tar bytes. Raises
    EvidenceError for input that contradicts itself or holds anything but plain files, and for an existing archive with
    other bytes; UsageError for a wrong archive name; EnvironmentLacks if the disk is full.
    """
    output, directories = Path(output), [Path(d) for d in run_dirs]
    check_archive_name(output.name)
    folder = output.parent
    if not folder.is_dir():
        raise UsageError(f"{folder}", found="no such directory", expected="a directory for the archive")
    for directory in directories:
        if folder.resolve().is_relative_to(directory.resolve()):
            raise UsageError(f"{output}", found=f"a place inside {directory}", expected="an archive outside its input")
    inputs = collect(directories)
    members = "".join(f"{s.sha256}  {s.name}\n" for s in inputs.sources).encode()
    first = Source(MEMBERS, hashlib.sha256(members).hexdigest(), len(members), members)
    written = sum(tarformat.stored_bytes(s.name, s.size) for s in (first, *inputs.sources))
    total = written + tarformat.end_bytes(written)
    if total > MAX_TAR_BYTES or len(members) > MAX_MEMBERS_FILE_BYTES:
        raise EvidenceError(
            f"{output.name}",
            found=f"{total} bytes in {len(inputs.sources)} members",
            expected=f"at most {MAX_TAR_BYTES} bytes and {MAX_MEMBERS_FILE_BYTES} bytes of {MEMBERS}",
            hint="pack fewer run directories into one archive",
        )

    tar_digest = hashlib.sha256()

    def stream(file: BinaryIO) -> None:
        compressor = zstandard.ZstdCompressor(level=level, threads=0, write_checksum=True).compressobj(size=total)
        done = 0
        for chunk in _tar((first, *inputs.sources)):
            tar_digest.update(chunk)
            _write_all(file, compressor.compress(chunk))
            done += len(chunk)
            if progress is not None:
                progress(done, total)
        _write_all(file, compressor.flush())

    sha256, size = _write_once(output, stream)
    return PackedArchive(
        path=output,
        bytes=size,
        sha256=sha256,
        tar_sha256=tar_digest.hexdigest(),
        members=len(inputs.sources),
        panels=inputs.panels,
        attempts=inputs.attempts,
        notes=inputs.notes,
    )


def _tar(sources: Sequence[Source]) -> Iterator[bytes]:
    written = 0
    for source in sources:
        yield tarformat.header(source.name, source.size)
        yield from [source.content] if isinstance(source.content, bytes) else _file_again(source, source.content)
        yield bytes(tarformat.padding(source.size))
        written += tarformat.stored_bytes(source.name, source.size)
    yield bytes(tarformat.end_bytes(written))


def _file_again(source: Source, path: Path) -> Iterator[bytes]:
    """The bytes of a file, which must be those that were hashed."""
    digest, left = hashlib.sha256(), source.size
    with open_regular(path, str(path), follow=False) as file:
        while left and (chunk := file.read(min(CHUNK_BYTES, left))):
            digest.update(chunk)
            left -= len(chunk)
            yield chunk
        is_longer = bool(file.read(1))
    if left or is_longer or digest.hexdigest() != source.sha256:
        raise EvidenceError(str(path), found="a file that changed while it was packed", hint="wait for the run to end")


def _write_once(output: Path, stream: Callable[[BinaryIO], None]) -> tuple[str, int]:
    """Write through a locked temporary file, sync, rename, then the sidecar. Returns (SHA-256, bytes)."""
    temporary = output.with_name(f".{output.name}.tmp")  # one fixed name: what a killed packer leaves is used again
    try:
        # Not truncated yet: another process may be writing it.
        fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise _cannot_write(temporary, error) from error
    with os.fdopen(fd, "r+b", buffering=0) as file:  # a buffer would be flushed once more when the disk is full
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise EvidenceError(f"{output}", found="another process that is packing it", hint="wait for it") from None
        if not temporary.exists() or not os.path.samestat(os.fstat(file.fileno()), temporary.stat()):
            # Opened just before the other process renamed it: this handle is the finished archive, not ours to touch.
            raise EvidenceError(f"{output}", found="another process that has just packed it", hint="pack again")
        try:
            file.truncate()
            stream(file)
            os.fsync(file.fileno())
            file.seek(0)
            sha256, size = hash_stream(file)
            _refuse_other(output, sha256)
            os.replace(temporary, output)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise _cannot_write(output, error) from error
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    _write_sidecar(output, sha256)
    return sha256, size


def _write_all(file: BinaryIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def _refuse_other(output: Path, sha256: str) -> None:
    """Evidence is write-once: an archive, or a sidecar left of one, may only be replaced by equal bytes."""
    if output.exists() or output.is_symlink():
        found = hash_file(output, str(output))[0]
    elif sidecar_path(output).exists():
        found = read_sidecar(output)
    else:
        return
    if found != sha256:
        raise EvidenceError(
            f"{output}",
            found=f"an archive of that name with SHA-256 {found}",
            expected=f"none, or the same bytes (SHA-256 {sha256})",
            hint="archives are write-once: choose another date or subject",
        )


def _write_sidecar(output: Path, sha256: str) -> None:
    sidecar = sidecar_path(output)
    temporary = sidecar.with_name(f".{sidecar.name}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8", newline="\n") as file:
            file.write(sidecar_text(output.name, sha256))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, sidecar)
        folder = os.open(output.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise _cannot_write(sidecar, error) from error


def _cannot_write(path: Path, error: OSError) -> EnvironmentLacks:
    return EnvironmentLacks(
        f"{path}",
        found=f"cannot be written: {error.strerror or error}",
        hint="make room, or choose another place for -o",
    )
