"""Inside an archive: its list of members, the members against it, their names and their headers."""

import tarfile
from pathlib import Path

import pytest
from evidence_craft import (
    NAME,
    compress,
    end,
    good_tar,
    listing,
    member,
    put,
    read_all,
    reader,
    refused_tar,
    sha256,
    tar_of,
)
from fitproof.errors import EvidenceError

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
