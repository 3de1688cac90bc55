"""Reading archives: what a good one yields; wrong digests, sizes, frames, bombs and sidecars."""

import os
import struct
from pathlib import Path

import pytest
import zstandard
from evidence_craft import (
    FILES,
    NAME,
    compress,
    good_tar,
    listing,
    member,
    put,
    read_all,
    reader,
    refused,
    refused_tar,
    sha256,
    tar_of,
)
from fitproof.errors import EvidenceError
from fitproof.evidence import reader as reader_module
from fitproof.evidence.files import read_sidecar, sidecar_path
from fitproof.evidence.reader import read_members


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
