"""Reading archives: what a good one yields, and every bad one refused with archive, found and expected."""

import os
import struct
import tarfile
from pathlib import Path

import pytest
import zstandard
from evidence_craft import (
    FILES,
    NAME,
    compress,
    end,
    good_tar,
    listing,
    member,
    put,
    read_all,
    reader,
    sha256,
    tar_of,
)  # fmt: skip
from fitproof.errors import EvidenceError
from fitproof.evidence import reader as reader_module
from fitproof.evidence.files import read_sidecar, sidecar_path
from fitproof.evidence.reader import read_members

FIRST = "grpo/0123456789abcdef/attempt-1/events.jsonl"


def refused(path: Path, **expected: object) -> EvidenceError:
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


def test_a_good_archive_yields_its_members_in_order(tmp_path: Path) -> None:
    tar = good_tar()
    path = put(tmp_path, compress(tar))
    members = reader(
        path, expected_sha256=read_sidecar(path), expected_size=path.stat().st_size, expected_tar_sha256=sha256(tar)
    )
    assert [(m.name, m.data) for m in members] == sorted(FILES.items())
    assert (members.bytes, members.tar_bytes) == (path.stat().st_size, len(tar))
    assert (members.tar_sha256, members.members) == (sha256(tar), len(FILES))


@pytest.mark.parametrize("size", [0, 1, 512, (1 << 18) - 1, 1 << 18, (1 << 20) + 7])
def test_members_of_all_sizes(tmp_path: Path, size: int) -> None:
    files = {"a": os.urandom(size), "b/c": b"x" * size, "n" * 300: b"long", "é": b"accent"}
    assert read_all(put(tmp_path, compress(good_tar(files)))) == files


def test_a_frame_without_declared_size_is_read(tmp_path: Path) -> None:
    assert read_all(put(tmp_path, compress(good_tar(), write_content_size=False))) == FILES


def test_an_archive_without_members_is_read(tmp_path: Path) -> None:
    assert read_all(put(tmp_path, compress(good_tar({})))) == {}


def test_through_a_symbolic_link(tmp_path: Path) -> None:
    """Download caches hold files as links to blobs."""
    path = put(tmp_path, compress(good_tar()))
    (tmp_path / "cache").mkdir()
    link = tmp_path / "cache" / NAME
    link.symlink_to(path)
    assert read_all(link) == FILES


# The outside: digest, size, frame.


def test_wrong_digest_is_found_before_anything_is_decompressed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path, compress(good_tar()))
    monkeypatch.setattr(reader_module, "zstandard", None)
    monkeypatch.setattr(reader_module, "check_frame", None)
    error = refused(path, expected_sha256="0" * 64)
    assert sha256(path.read_bytes()) in error.found
    assert "0" * 64 in error.expected


def test_wrong_size(tmp_path: Path) -> None:
    path = put(tmp_path, compress(good_tar()))
    assert "bytes" in refused(path, expected_size=path.stat().st_size + 1).expected


def test_a_digest_must_be_given_as_lower_case_hex(tmp_path: Path) -> None:
    path = put(tmp_path, compress(good_tar()))
    assert "lower-case" in refused(path, expected_sha256=sha256(path.read_bytes()).upper()).expected


def test_wrong_tar_digest_is_found_at_the_end(tmp_path: Path) -> None:
    assert "tar SHA-256" in refused(put(tmp_path, compress(good_tar())), expected_tar_sha256="0" * 64).found


@pytest.mark.parametrize("cut", [1, 4, 5, 100])
def test_truncated(tmp_path: Path, cut: int) -> None:
    assert "truncated" in refused(put(tmp_path, compress(good_tar())[:-cut])).render()


@pytest.mark.parametrize("kept", [0, 1, 3, 4, 5, 6, 8, 9, 12])
def test_truncated_to_the_first_bytes(tmp_path: Path, kept: int) -> None:
    refused(put(tmp_path, compress(good_tar())[:kept]))


@pytest.mark.parametrize(
    "more",
    [b"\0", b"junk", compress(b""), compress(good_tar()), struct.pack("<II", 0x184D2A50, 4) + b"skip"],
    ids=["zero", "junk", "empty-frame", "second-frame", "skippable-frame"],
)
def test_trailing_data(tmp_path: Path, more: bytes) -> None:
    assert "trailing data" in refused(put(tmp_path, compress(good_tar()) + more)).found


def test_a_skippable_frame_before(tmp_path: Path) -> None:
    assert "Zstandard" in refused(put(tmp_path, struct.pack("<II", 0x184D2A50, 0) + compress(good_tar()))).expected


def test_not_zstandard(tmp_path: Path) -> None:
    assert "Zstandard" in refused(put(tmp_path, good_tar())).expected


def test_without_content_checksum(tmp_path: Path) -> None:
    assert "checksum" in refused(put(tmp_path, compress(good_tar(), write_checksum=False))).expected


def test_wrong_content_checksum(tmp_path: Path) -> None:
    archive = bytearray(compress(good_tar()))
    archive[-1] ^= 1
    assert "decompress" in refused(put(tmp_path, bytes(archive))).found


def test_a_window_that_takes_too_much_memory(tmp_path: Path) -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=27, write_checksum=True, write_content_size=False)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    archive = compressor.compress(good_tar()) + compressor.flush()
    assert "window" in refused(put(tmp_path, archive)).found


def test_lfs_pointer_says_what_to_do(tmp_path: Path) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12\n"
    assert refused(put(tmp_path, pointer), expected_sha256="0" * 64).hint == "git lfs pull"


def test_absent_folder_and_fifo(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="No such file"):
        next(read_members(tmp_path / NAME, expected_sha256="0" * 64))
    with pytest.raises(EvidenceError, match="regular file"):
        next(read_members(tmp_path, expected_sha256="0" * 64))
    os.mkfifo(tmp_path / NAME)
    with pytest.raises(EvidenceError, match="regular file"):
        next(read_members(tmp_path / NAME, expected_sha256="0" * 64))


# Bombs: what inflates past what it declares, or past what is sane.


def test_a_bomb_past_the_archive_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "MAX_TAR_BYTES", 1 << 20)
    tar = good_tar({"a": bytes(1 << 21)})
    assert "declared size" in refused(put(tmp_path, compress(tar))).found
    assert "inflated" in refused(put(tmp_path, compress(tar, write_content_size=False))).found


def test_zeros_after_the_end_are_not_read_on_and_on(tmp_path: Path) -> None:
    archive = put(tmp_path, compress(good_tar() + bytes(1 << 26), write_content_size=False))
    taken = []
    original = reader_module._Tar._fill

    def counting(tar: object) -> bool:
        taken.append(1)
        return original(tar)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader_module._Tar, "_fill", counting)
        assert "after the last record" in refused(archive).found
    assert len(taken) < 4


def test_a_member_past_the_member_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "MAX_MEMBER_BYTES", 1000)
    assert "at most 1000 bytes" in refused_tar(tmp_path, good_tar({"a": bytes(1001)})).expected


def test_a_members_file_past_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "MAX_MEMBERS_FILE_BYTES", 100)
    assert "at most 100 bytes" in refused_tar(tmp_path, good_tar()).expected


def test_a_member_larger_than_the_archive_declares(tmp_path: Path) -> None:
    tar = tar_of([member("a", b"x", size=200_000)], listing({"a": b"x"}))
    assert "declares" in refused_tar(tmp_path, tar).expected


def test_a_member_that_is_cut_short(tmp_path: Path) -> None:
    tar = tar_of([member("a", b"x", size=200_000)], listing({"a": b"x"}))
    assert "too early" in refused(put(tmp_path, compress(tar, write_content_size=False))).found


def frame(blocks: bytes, content_size: int) -> bytes:
    """A Zstandard frame of given blocks, with a window of 128 KiB, a declared size and some checksum."""
    return b"\x28\xb5\x2f\xfd" + bytes([0b11000100, 7 << 3]) + struct.pack("<Q", content_size) + blocks + b"sum."


def test_a_frame_that_inflates_past_its_declared_size(tmp_path: Path) -> None:
    run_of_zeros = ((128 << 10) << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    last = (1 | 1 << 1 | 10 << 3).to_bytes(3, "little") + b"\0"
    refused(put(tmp_path, frame(run_of_zeros * 10_000 + last, 512)))


# MEMBERS.sha256.


def raw_listing(tmp_path: Path, text: bytes, names: tuple[str, ...] = ("a",)) -> EvidenceError:
    return refused_tar(tmp_path, tar_of([member(n) for n in names], text))


EMPTY = sha256(b"")


@pytest.mark.parametrize(
    "text",
    [
        f"{EMPTY}  a",
        f"{EMPTY} a\n",
        f"{EMPTY} *a\n",
        f"{EMPTY}  a\r\n",
        f"{EMPTY.upper()}  a\n",
        f"{EMPTY[:-1]}  a\n",
        f"\n{EMPTY}  a\n",
        f"{EMPTY}  a\n\n",
        "junk\n",
        f"{EMPTY}  \n",
        f"{EMPTY}  a\n{EMPTY}  a\n",
        f"{EMPTY}  MEMBERS.sha256\n{EMPTY}  a\n",
        f"{EMPTY}  a\n{EMPTY}  members.SHA256\n",
        f"{EMPTY}  ../a\n",
    ],
)
def test_malformed_members_file(tmp_path: Path, text: str) -> None:
    assert "MEMBERS.sha256" in raw_listing(tmp_path, text.encode()).subject


def test_members_file_that_is_not_utf8(tmp_path: Path) -> None:
    assert "UTF-8" in raw_listing(tmp_path, EMPTY.encode() + b"  \xff\n").expected


def test_members_file_missing_or_not_first(tmp_path: Path) -> None:
    assert "MEMBERS.sha256 first" in refused_tar(tmp_path, tar_of([member("a")], None)).expected
    late = tar_of([member("a"), member("MEMBERS.sha256", listing({"a": b""}))], None)
    assert "first member a" in refused_tar(tmp_path, late).found
    assert "no members" in refused_tar(tmp_path, end(b"")).found
    assert "too early" in refused_tar(tmp_path, b"").found


def test_members_file_twice(tmp_path: Path) -> None:
    text = listing({"a": b""})
    assert "second time" in refused_tar(tmp_path, tar_of([member("MEMBERS.sha256", text), member("a")], text)).found


# Members against the list.


def test_missing_member(tmp_path: Path) -> None:
    text = listing({"a": b"", "b": b"", "c": b""})
    assert "missing" in refused_tar(tmp_path, tar_of([member("a"), member("b")], text)).found
    assert "member b" in refused_tar(tmp_path, tar_of([member("a"), member("c")], text)).subject


def test_extra_member(tmp_path: Path) -> None:
    text = listing({"a": b"", "c": b""})
    for names in ("abc", "acd"):
        assert "extra or renamed" in refused_tar(tmp_path, tar_of([member(n) for n in names], text)).found


def test_duplicated_member(tmp_path: Path) -> None:
    text = listing({"a": b"", "b": b""})
    for names in ("aab", "aba", "abb"):
        assert "second time" in refused_tar(tmp_path, tar_of([member(n) for n in names], text)).found


def test_renamed_member(tmp_path: Path) -> None:
    tar = tar_of([member("a"), member("bb")], listing({"a": b"", "b": b""}))
    assert "extra or renamed" in refused_tar(tmp_path, tar).found


def test_altered_member(tmp_path: Path) -> None:
    tar = tar_of([member("a", b"two")], listing({"a": b"one"}))
    error = refused_tar(tmp_path, tar)
    assert (error.subject, error.found) == (f"{NAME}: member a", f"SHA-256 {sha256(b'two')}")
    assert sha256(b"one") in error.expected


def test_no_member_is_handed_out_before_its_digest_is_checked(tmp_path: Path) -> None:
    path = put(tmp_path, compress(tar_of([member("a", b"1"), member("b", b"2")], listing({"a": b"1", "b": b"x"}))))
    members = reader(path)
    assert next(members).data == b"1"
    with pytest.raises(EvidenceError, match="member b"):
        next(members)
    with pytest.raises(StopIteration):
        next(members)
    assert members.tar_sha256 is None


def test_members_out_of_order(tmp_path: Path) -> None:
    text = f"{EMPTY}  b\n{EMPTY}  a\n".encode()
    assert "out of order" in refused_tar(tmp_path, tar_of([member("b"), member("a")], text)).found
    swapped = tar_of([member("b"), member("a")], listing({"a": b"", "b": b""}))
    assert "out of order" in refused_tar(tmp_path, swapped).found


def test_order_is_that_of_utf8_bytes(tmp_path: Path) -> None:
    names = ["Z", "a", "a-", "a.b", "a0", "é", "\uff5e", "\U0001f600"]
    files = dict.fromkeys(names, b"")
    assert list(read_all(put(tmp_path, compress(good_tar(files))))) == names


# Names.

BAD_NAMES = [
    "/etc/passwd",
    "../a",
    "a/../b",
    "a/./b",
    "./a",
    "a//b",
    "a/",
    "a\\b",
    "a\nb",
    "a\x01b",
    "e\u0301",
    "a\u202eb",
]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_bad_names_in_the_tar(tmp_path: Path, name: str) -> None:
    refused_tar(tmp_path, tar_of([member(name)], f"{EMPTY}  {name}\n".encode()))
    assert "name" in refused_tar(tmp_path, tar_of([member(name)], listing({"a": b""}))).found


def test_names_that_are_not_utf8_or_hide_behind_a_nul(tmp_path: Path) -> None:
    block = bytearray(member("abc"))
    for patch in (b"a\xffc", b"a\0c"):
        block[:3] = patch
        fix_checksum(block)
        assert "member" in refused_tar(tmp_path, tar_of([bytes(block)], listing({"abc": b""}))).subject


@pytest.mark.parametrize(
    "names",
    [("a", "A"), ("p/a", "P/b"), ("p/\u00c9", "p/\u00e9"), ("Stra\u00dfe", "strasse"), ("a", "a/b")],
)
def test_names_that_differ_only_by_case_or_unicode_form(tmp_path: Path, names: tuple[str, str]) -> None:
    error = refused_tar(tmp_path, good_tar(dict.fromkeys(names, b"")))
    assert "case or Unicode form" in error.expected
    assert any(n in error.found for n in names)


# Headers.


def fix_checksum(block: bytearray) -> None:
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block[:512])


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        (tarfile.LNKTYPE, "hard link"),
        (tarfile.SYMTYPE, "symbolic link"),
        (tarfile.CHRTYPE, "character device"),
        (tarfile.BLKTYPE, "block device"),
        (tarfile.DIRTYPE, "directory"),
        (tarfile.FIFOTYPE, "fifo"),
        (tarfile.CONTTYPE, "contiguous"),
        (tarfile.AREGTYPE, "old-style"),
        (tarfile.GNUTYPE_SPARSE, "sparse"),
        (tarfile.GNUTYPE_LONGNAME, "long name"),
        (tarfile.XGLTYPE, "global"),
        (b"V", "type b'V'"),
    ],
)
def test_anything_but_regular_files(tmp_path: Path, kind: bytes, shown: str) -> None:
    block = bytearray(member("a", linkname="b" if kind in (tarfile.LNKTYPE, tarfile.SYMTYPE) else ""))
    block[156:157] = kind
    fix_checksum(block)
    error = refused_tar(tmp_path, tar_of([bytes(block), member("b")], listing({"a": b"", "b": b""})))
    assert shown in error.found
    assert error.expected == "a regular file"


@pytest.mark.parametrize(
    "fields",
    [
        {"mtime": 1}, {"mtime": 0.5}, {"uid": 1000}, {"gid": 1}, {"uname": "root"}, {"gname": "users"},
        {"mode": 0o755}, {"mode": 0o4644}, {"linkname": "x"}, {"pax_headers": {"comment": "hello"}},
        {"pax_headers": {"size": "1"}},
    ],
)  # fmt: skip
def test_headers_that_are_not_canonical(tmp_path: Path, fields: dict[str, object]) -> None:
    error = refused_tar(tmp_path, tar_of([member("a", **fields)], listing({"a": b""})))
    assert "header" in error.subject or "member a" in error.subject


@pytest.mark.parametrize("at", range(100, 512, 3))
def test_every_header_byte_counts(tmp_path: Path, at: int) -> None:
    block = bytearray(member("a", b"data"))
    block[at] ^= 0x01
    if not 148 <= at < 156:
        fix_checksum(block)
    refused_tar(tmp_path, tar_of([bytes(block)], listing({"a": b"data"})))


def test_an_extended_header_that_the_name_does_not_need(tmp_path: Path) -> None:
    tar = tar_of([member("a", pax_headers={"path": "a"})], listing({"a": b""}))
    assert "extended header" in refused_tar(tmp_path, tar).found


def test_a_ustar_prefix_in_place_of_an_extended_header(tmp_path: Path) -> None:
    name = "d" * 60 + "/" + "f" * 60
    info = tarfile.TarInfo(name)
    tar = tar_of([info.tobuf(tarfile.USTAR_FORMAT)], listing({name: b""}))
    refused_tar(tmp_path, tar)
    assert read_all(put(tmp_path, compress(good_tar({name: b""})))) == {name: b""}


def test_a_huge_extended_header(tmp_path: Path) -> None:
    refused_tar(tmp_path, tar_of([member("a", pax_headers={"comment": "x" * 5000})], listing({"a": b""})))


def test_data_in_the_padding_and_after_the_end(tmp_path: Path) -> None:
    tar = bytearray(tar_of([member("a", b"x")], listing({"a": b"x"})))
    at = 512 * 3 + 1
    assert tar[at - 1 : at] == b"x"
    for position in (at, 512 * 3 + 511):
        changed = bytearray(tar)
        changed[position] = 1
        assert "padding" in refused_tar(tmp_path, bytes(changed)).found
    for position in (512 * 5, 512 * 6 + 3, len(tar) - 1):
        changed = bytearray(tar)
        changed[position] = 1
        refused_tar(tmp_path, bytes(changed))
    for other_end in (bytes(tar[:-512]), bytes(tar) + bytes(512), bytes(tar) + bytes(10240), bytes(tar) + b"\0"):
        assert "end of archive" in refused_tar(tmp_path, other_end).subject


# Sidecars.


@pytest.mark.parametrize(
    "text",
    [
        "", "{0}", "{0}  {1}", "{0}  {1}\n\n", "{0} *{1}\n", "{0} {1}\n", "{0}  other.tar.zst\n", "{0}  ./{1}\n",
        "{0}  {1}\r\n", "{2}  {1}\n", "  {0}  {1}\n", "{0}  {1}\n{0}  {1}\n",
    ],
)  # fmt: skip
def test_malformed_sidecars(tmp_path: Path, text: str) -> None:
    path = put(tmp_path, compress(good_tar()))
    digest = sha256(path.read_bytes())
    sidecar_path(path).write_bytes(text.format(digest, NAME, digest.upper()).encode())
    with pytest.raises(EvidenceError, match="one line") as caught:
        read_sidecar(path)
    assert caught.value.subject == NAME + ".sha256"


def test_absent_and_lfs_sidecars(tmp_path: Path) -> None:
    path = put(tmp_path, compress(good_tar()))
    sidecar_path(path).write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(EvidenceError, match="git lfs pull"):
        read_sidecar(path)
    sidecar_path(path).unlink()
    with pytest.raises(EvidenceError, match=r"tar\.zst\.sha256"):
        read_sidecar(path)
