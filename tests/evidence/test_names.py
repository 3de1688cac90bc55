"""Names that may and may not stand in an archive."""

import pytest
from fitproof.errors import UsageError
from fitproof.evidence.names import archive_name_fault, check_archive_name, collision, name_fault


@pytest.mark.parametrize("name", ["a", "a/b-c_d.e", "größe/x y", "..a/b..", ".hidden", "-", "ab:c", "日本/x"])
def test_good_names(name: str) -> None:
    assert name_fault(name) is None


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("", "empty"),
        ("/a", "absolute"),
        ("C:/a", "absolute"),
        ("a\\b", "backslash"),
        ("a//b", "empty component"),
        ("a/", "empty component"),
        ("../a", "'..'"),
        ("a/../b", "'..'"),
        ("a/..", "'..'"),
        ("./a", "'.'"),
        ("a/.", "'.'"),
        ("a\0b", "control"),
        ("a\nb", "control"),
        ("a\x7fb", "control"),
        ("a\u202eb", "invisible"),
        ("a\u200bb", "invisible"),
        ("a\udcffb", "invisible"),
        ("a /b", "white space"),
        (" a", "white space"),
        ("e\u0301", "normal form"),
        ("n" * 1025, "longer"),
        ("é" * 513, "longer"),
    ],
)
def test_bad_names(name: str, fault: str) -> None:
    assert fault in (name_fault(name) or "")


@pytest.mark.parametrize(
    "names",
    [
        ["a/x", "a/X"],
        ["a/x", "A/y"],
        ["Straße", "STRASSE"],
        ["ﬁ", "fi"],
        ["\u00e9", "\u00c9"],
        ["\u212b", "\u00e5"],
        ["a", "a/b"],
        ["a/b/c/d", "a/b"],
        ["p/Q/r/s", "p/q/t"],
    ],
)
def test_names_that_a_file_system_may_merge(names: list[str]) -> None:
    assert collision(names) is not None
    assert collision(names[::-1]) is not None


def test_names_that_stay_apart() -> None:
    assert collision(["a/b/c", "a/b/d", "a/bc", "ab/c", "a/b1/c"]) is None


@pytest.mark.parametrize("name", ["2026-12-01_h200_core.tar.zst", "2024-02-29_nvidia-h200-x2_grpo-0.6B.tar.zst"])
def test_good_archive_names(name: str) -> None:
    check_archive_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "2026-12-01_h200.tar.zst",
        "2026-12-01_h200_a_b.tar.zst",
        "2026-02-30_h200_a.tar.zst",
        "2026-13-01_h200_a.tar.zst",
        "26-12-01_h200_a.tar.zst",
        "20261201_h200_a.tar.zst",
        "2026-12-01_h200_a.tar.gz",
        "2026-12-01_h200_a.tar.zst\n",
        "2026-12-01_h 200_a.tar.zst",
        "2026-12-01__a.tar.zst",
        "x2026-12-01_h200_a.tar.zst",
        "٢٠٢٦-12-01_h200_a.tar.zst",
    ],
)
def test_bad_archive_names(name: str) -> None:
    assert archive_name_fault(name) is not None
    with pytest.raises(UsageError, match="archive name"):
        check_archive_name(name)
