"""Build good and bad archives byte by byte, on tarfile's header writer rather than on the package's own."""

import hashlib
import io
import os
import tarfile
from collections.abc import Iterable
from pathlib import Path

import pytest
import zstandard
from fitproof.errors import EvidenceError
from fitproof.evidence.files import sidecar_path, sidecar_text
from fitproof.evidence.reader import Member, MemberReader, read_members

NAME = "2026-12-01_cpu_crafted.tar.zst"
FILES = {
    "grpo/0123456789abcdef/attempt-1/events.jsonl": b'{"t_ns":1,"event":"finished","completed_steps":2}\n',
    "grpo/0123456789abcdef/attempt-1/memory.csv": b"t_ns,device_index,device_used_bytes,process_used_bytes\n" * 30,
    "grpo/ledger.jsonl": b"",
    "grpo/plan.json": bytes(range(256)) * 2,  # a whole number of blocks: no padding
}


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def member(name: str, data: bytes = b"", **fields: object) -> bytes:
    """Header and padded data of one tar member; `fields` set attributes of its TarInfo."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o644
    for field, value in fields.items():
        setattr(info, field, value)
    return info.tobuf(tarfile.PAX_FORMAT) + data + bytes(-len(data) % 512)


def listing(files: dict[str, bytes]) -> bytes:
    return "".join(f"{sha256(files[n])}  {n}\n" for n in sorted(files, key=str.encode)).encode()


def end(body: bytes) -> bytes:
    return body + bytes(1024) + bytes(-(len(body) + 1024) % 10240)


def tar_of(members: Iterable[bytes], members_file: bytes | None) -> bytes:
    """MEMBERS.sha256 (unless None), the given raw members, the end of the archive."""
    first = b"" if members_file is None else member("MEMBERS.sha256", members_file)
    return end(first + b"".join(members))


def good_tar(files: dict[str, bytes] = FILES) -> bytes:
    return tar_of([member(n, files[n]) for n in sorted(files, key=str.encode)], listing(files))


def compress(tar: bytes, **parameters: object) -> bytes:
    return zstandard.ZstdCompressor(**{"level": 3, "write_checksum": True, **parameters}).compress(tar)


def put(folder: Path, archive: bytes, name: str = NAME) -> Path:
    """Write an archive with a sidecar that agrees with it."""
    path = folder / name
    path.write_bytes(archive)
    sidecar_path(path).write_text(sidecar_text(name, sha256(archive)))
    return path


def reader(path: Path, **expected: object) -> MemberReader:
    return read_members(path, **{"expected_sha256": sha256(path.read_bytes()), **expected})


def read_all(path: Path, **expected: object) -> dict[str, bytes]:
    """Every member by name; also that digests are those of the data."""
    found: list[Member] = list(reader(path, **expected))
    assert all(m.sha256 == sha256(m.data) for m in found)
    assert len({m.name for m in found}) == len(found)
    return {m.name: m.data for m in found}


def unpacked(path: Path) -> tuple[bytes, list[tarfile.TarInfo]]:
    """The tar of an archive by another way, and its members as tarfile sees them."""
    tar = zstandard.ZstdDecompressor().decompress(path.read_bytes(), max_output_size=1 << 28)
    with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
        return tar, archive.getmembers()


def refused(path: Path, **expected: object) -> EvidenceError:
    """The error that reading must raise, which says all it must say; nothing was written beside the archive."""
    with pytest.raises(EvidenceError) as caught:
        read_all(path, **expected)
    error = caught.value
    assert error.subject.startswith(path.name)
    assert error.found
    assert error.expected
    assert error.exit_code == 1
    assert os.listdir(path.parent) in ([path.name, path.name + ".sha256"], [path.name + ".sha256", path.name])
    return error


def refused_tar(tmp_path: Path, tar: bytes) -> EvidenceError:
    return refused(put(tmp_path, compress(tar)))
