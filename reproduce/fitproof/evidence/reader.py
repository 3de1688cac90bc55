"""Read an archive as one stream: its digest first, then members, each checked before it is handed out.

    for member in read_members(path, expected_sha256=digest):
        use(member.name, member.data)

The SHA-256 of the compressed file is checked before a byte is decompressed, always. Then come Zstandard frame, tar
headers (byte for byte the canonical ones) and every member's digest against MEMBERS.sha256, the first member. What can
only be known at the end (nothing missing, nothing trailing, the tar's own digest) is checked after the last member, so
a consumer publishes nothing before the loop has ended without an error. Memory is bounded by the limits below and
nothing is written to disk. What the members say is not looked at: that is the pipeline's work.
"""

import hashlib
import os
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import zstandard

from fitproof.errors import EvidenceError
from fitproof.evidence import tarformat
from fitproof.evidence.files import HEX64, LFS_HEAD, LFS_HINT, REFETCH_HINT, hash_stream, open_regular
from fitproof.evidence.frame import MAX_WINDOW_BYTES, check_frame
from fitproof.evidence.names import MAX_NAME_BYTES, MEMBERS, collision, folded, name_fault

MAX_MEMBER_BYTES = 1 << 28
"""256 MiB: a member is held in memory. An hour of samples at 10 ms is 15 MB."""
MAX_MEMBERS_FILE_BYTES = 1 << 26
"""64 MiB of MEMBERS.sha256: half a million members."""
MAX_TAR_BYTES = 1 << 36
"""64 GiB inflated. Streamed, so this bounds time, not memory."""

_CHUNK_BYTES = 1 << 18  # stays in the cache between decompressing, hashing and slicing


@dataclass(frozen=True, slots=True)
class Member:
    """One regular file of an archive; `data` has the digest that MEMBERS.sha256 states for `name`."""

    name: str
    data: bytes
    sha256: str


class MemberReader(Iterator[Member]):
    """Iterator over the members in archive order. After its end the totals of what was read are set."""

    def __init__(
        self,
        path: Path,
        *,
        expected_sha256: str,
        expected_size: int | None,
        expected_tar_sha256: str | None,
        hash_tar: bool,
    ) -> None:
        self.path = path
        self._expected = expected_sha256, expected_size, expected_tar_sha256
        self._hash_tar = hash_tar or expected_tar_sha256 is not None
        self._members = self._walk()
        self.bytes: int | None = None
        """Compressed bytes."""
        self.tar_bytes: int | None = None
        self.tar_sha256: str | None = None
        """SHA-256 of the whole uncompressed tar; None with `hash_tar=False`."""
        self.members: int | None = None
        """Members without MEMBERS.sha256."""

    def __next__(self) -> Member:
        return next(self._members)

    def close(self) -> None:
        """Stop early. What only the end of the archive can show has then not been checked."""
        self._members.close()

    def _walk(self) -> Iterator[Member]:
        subject = self.path.name
        expected_sha256, expected_size, expected_tar_sha256 = self._expected
        with open_regular(self.path, subject) as file:
            size = _check_digest(file, subject, expected_sha256, expected_size)
            declared = check_frame(file.fileno(), size, subject)
            file.seek(0)
            tar = _Tar(file, subject, declared, hash_tar=self._hash_tar)
            try:
                listing = _read_listing(tar)
                yield from _read_listed(tar, listing)
                tar.finish()
            except zstandard.ZstdError as error:
                raise tar.error("", f"data that does not decompress ({error})", "an intact Zstandard frame") from None
        found = tar.sha256()
        if expected_tar_sha256 is not None and found != expected_tar_sha256:
            raise tar.error("", f"tar SHA-256 {found}", f"tar SHA-256 {expected_tar_sha256}")
        self.bytes, self.tar_bytes, self.tar_sha256, self.members = size, tar.total, found, len(listing)


def read_members(
    path: Path,
    *,
    expected_sha256: str,
    expected_size: int | None = None,
    expected_tar_sha256: str | None = None,
    hash_tar: bool = True,
) -> MemberReader:
    """Iterate over an archive's members (MEMBERS.sha256 itself left out) after checking the file's SHA-256.

    `expected_size`: bytes of the compressed file. `expected_tar_sha256`: of the uncompressed tar, checked at the end.
    `hash_tar=False` spares that digest where nothing is expected of it: every member has been checked by its own.
    Iterating raises EvidenceError, which names archive, member, found and expected, for anything but an archive as
    `pack` writes it.
    """
    return MemberReader(
        Path(path),
        expected_sha256=expected_sha256,
        expected_size=expected_size,
        expected_tar_sha256=expected_tar_sha256,
        hash_tar=hash_tar,
    )


def _check_digest(file: BinaryIO, subject: str, expected_sha256: str, expected_size: int | None) -> int:
    """Bytes of the file, after its size and SHA-256 have been found as expected."""
    if not HEX64.fullmatch(expected_sha256):
        raise EvidenceError(subject, found=f"expected digest {expected_sha256!r}", expected="64 lower-case hex digits")
    if os.pread(file.fileno(), len(LFS_HEAD), 0) == LFS_HEAD:
        raise EvidenceError(subject, found="a Git LFS pointer", expected="the archive itself", hint=LFS_HINT)
    size = os.fstat(file.fileno()).st_size
    if expected_size is not None and size != expected_size:
        raise EvidenceError(subject, found=f"{size} bytes", expected=f"{expected_size} bytes", hint=REFETCH_HINT)
    sha256, size = hash_stream(file)
    if sha256 != expected_sha256:
        raise EvidenceError(
            subject, found=f"SHA-256 {sha256}", expected=f"SHA-256 {expected_sha256}", hint=REFETCH_HINT
        )
    return size


class _Tar:
    """The decompressed bytes in order, counted, hashed and bounded."""

    def __init__(self, file: BinaryIO, subject: str, declared: int | None, *, hash_tar: bool) -> None:
        self.subject, self.total = subject, 0
        self._declared = declared
        self._limit = MAX_TAR_BYTES if declared is None else declared
        self._sha = hashlib.sha256() if hash_tar else None
        self._chunk, self._at = b"", 0
        if self._limit > MAX_TAR_BYTES:
            raise self.error("", f"a declared size of {declared} bytes", f"at most {MAX_TAR_BYTES}")
        decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
        self._read = decompressor.stream_reader(file, read_across_frames=False, closefd=False).read

    def error(self, member: str, found: str, expected: str) -> EvidenceError:
        subject = f"{self.subject}: {member}" if member else self.subject
        return EvidenceError(subject, found=found, expected=expected, hint=REFETCH_HINT)

    def sha256(self) -> str | None:
        return self._sha.hexdigest() if self._sha else None

    def _fill(self) -> bool:
        self._chunk, self._at = self._read(_CHUNK_BYTES), 0
        self.total += len(self._chunk)
        if self.total > self._limit:
            raise self.error("", f"more than {self._limit} bytes inflated", f"at most {self._limit} bytes")
        if self._sha:
            self._sha.update(self._chunk)
        return bool(self._chunk)

    def take(self, count: int, member: str) -> bytes:
        """Exactly `count` bytes."""
        end = self._at + count
        data = self._chunk[self._at : end]
        if end <= len(self._chunk):
            self._at = end
            return data
        parts, missing = [data], count - len(data)
        while missing:
            if not self._fill():
                raise self.error(member, f"the tar ends {missing} bytes too early", "whole blocks and two zero blocks")
            parts.append(self._chunk[:missing])
            self._at = len(parts[-1])
            missing -= self._at
        return b"".join(parts)

    def take_member(self, limit: int, listed: Container[str] = ()) -> tuple[str, bytes] | None:
        """The next member, whose header is the canonical one for its name and size; None at the first zero block.

        Names in `listed` are known to be without fault.
        """
        block = self.take(tarformat.BLOCK, "header")
        if block == tarformat.ZERO_BLOCK:
            return None
        extended = b""
        if block[156:157] == tarformat.PAX:
            length = self._size(block, "extended header", MAX_NAME_BYTES + 16)
            extended = block + self.take(length + tarformat.padding(length), "extended header")
            name = _pax_name(extended[tarformat.BLOCK : tarformat.BLOCK + length])
            block = self.take(tarformat.BLOCK, "header")
        else:
            name = block[:100].rstrip(b"\0").decode("utf-8", "surrogateescape")
        if name is None:
            raise self.error("extended header", "no single path record in UTF-8", "one record: path")
        shown = name if name.isprintable() else repr(name)
        if name not in listed and (fault := name_fault(name)):
            raise self.error(f"member {shown}", f"the name {fault}", "a relative path of visible text")
        size = self._size(block, f"member {shown}", limit)
        canonical = tarformat.header(name, size)
        if extended + block != canonical:
            at = canonical[-tarformat.BLOCK :]
            if block == at:  # the difference is in the extended header, or in whether there is one
                found, expected = "another extended header", "the canonical one, only where the name needs it"
            else:
                found, expected = tarformat.describe_block(block, at)
            raise self.error(f"member {shown}", found, expected)
        data = self.take(size, f"member {shown}")
        if self.take(tarformat.padding(size), f"member {shown}").strip(b"\0"):
            raise self.error(f"member {shown}", "data in the padding", "zero bytes")
        return name, data

    def _size(self, block: bytes, member: str, limit: int) -> int:
        field = block[124:136]
        if not (field[:11].isdigit() and field[11:] == b"\0" and max(field[:11]) < ord("8")):
            raise self.error(member, f"size field {field!r}", "11 octal digits and a NUL")
        size = int(field[:11], 8)
        if size > limit:
            raise self.error(member, f"{size} bytes", f"at most {limit} bytes")
        if self._declared is not None and size > self._declared:
            raise self.error(member, f"{size} bytes", f"at most the {self._declared} bytes the archive declares")
        return size

    def finish(self) -> None:
        """Only zeros, as many as the canonical end has, and then the end of the frame with its checksum."""
        wanted = tarformat.end_bytes(self.total - len(self._chunk) + self._at - tarformat.BLOCK) - tarformat.BLOCK
        if self.take(wanted, "end of archive").strip(b"\0"):
            raise self.error("end of archive", "data after the first zero block", "zero bytes")
        if self._at < len(self._chunk) or self._fill():
            raise self.error("end of archive", "bytes after the last record", "none")


def _pax_name(payload: bytes) -> str | None:
    try:
        name = payload.split(b" path=", 1)[1][:-1].decode("utf-8")
    except (IndexError, UnicodeDecodeError):
        return None
    return name if payload == tarformat.pax_record(name) else None


def _read_listing(tar: _Tar) -> dict[str, str]:
    """MEMBERS.sha256: name -> SHA-256 in archive order, checked as a list of names."""
    first = tar.take_member(MAX_MEMBERS_FILE_BYTES)
    if first is None or first[0] != MEMBERS:
        raise tar.error(MEMBERS, "no members" if first is None else f"first member {first[0]}", f"{MEMBERS} first")
    try:
        text = first[1].decode("utf-8")
    except UnicodeDecodeError:
        raise tar.error(MEMBERS, "bytes that are not UTF-8", "UTF-8 text") from None
    if text and not text.endswith("\n"):
        raise tar.error(MEMBERS, "no line feed at the end", "a line feed after every line")
    listing: dict[str, str] = {}
    before = b""
    for line in text.split("\n")[:-1]:
        sha256, name = line[:64], line[66:]
        if line[64:66] != "  " or not HEX64.fullmatch(sha256):
            raise tar.error(MEMBERS, f"line {line[:200]!r}", "64 lower-case hex digits, two spaces, a name")
        fault = name_fault(name) or ("belongs to the list itself" if folded(name) == folded(MEMBERS) else None)
        if fault:
            raise tar.error(MEMBERS, f"name {name[:200]!r}, which {fault}", "a relative path of visible text")
        encoded = name.encode("utf-8")
        if encoded <= before:
            what = "listed twice" if encoded == before else "out of order"
            raise tar.error(MEMBERS, f"{name} {what}", "names ascending as UTF-8 bytes, each once")
        listing[name], before = sha256, encoded
    if pair := collision(listing):
        raise tar.error(MEMBERS, f"{pair[0]} and {pair[1]}", "no names that differ only by case or Unicode form")
    return listing


def _read_listed(tar: _Tar, listing: dict[str, str]) -> Iterator[Member]:
    """The members, which must be the listed ones in the listed order, up to the first zero block."""
    for wanted, sha256 in listing.items():
        found = tar.take_member(MAX_MEMBER_BYTES, listing)
        if found is None:
            raise tar.error(f"member {wanted}", "missing: the tar ends before it", f"a member, as {MEMBERS} lists it")
        name, data = found
        if name != wanted:
            raise _misplaced(tar, name, wanted, listing)
        digest = hashlib.sha256(data).hexdigest()
        if digest != sha256:
            raise tar.error(f"member {name}", f"SHA-256 {digest}", f"SHA-256 {sha256}, as {MEMBERS} lists it")
        yield Member(name, data, digest)
    if (found := tar.take_member(MAX_MEMBER_BYTES)) is not None:
        raise _misplaced(tar, found[0], None, listing)


def _misplaced(tar: _Tar, name: str, wanted: str | None, listing: dict[str, str]) -> EvidenceError:
    """The error for member `name` where `wanted` (None: the end of the archive) must stand."""
    where = f"{wanted} here" if wanted is not None else "the end of the archive here"
    is_listed = name in listing
    if name == MEMBERS or (is_listed and (wanted is None or name.encode() < wanted.encode())):
        return tar.error(f"member {name}", "the member a second time", f"{where}, each member once")
    if is_listed:
        return tar.error(f"member {wanted}", f"missing or out of order: {name} stands here", where)
    return tar.error(f"member {name}", f"an extra or renamed member, not in {MEMBERS}", where)
