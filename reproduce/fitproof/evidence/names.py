"""Which names a member, a published file and an archive may have.

An archive travels between file systems, so two names that some file system would merge are refused, and so is every
name that could leave the folder it is read in or that a person cannot see.
"""

import re
import unicodedata
from collections.abc import Iterable
from datetime import date

from fitproof.errors import UsageError

MEMBERS = "MEMBERS.sha256"
MAX_NAME_BYTES = 1024

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(?:/[A-Za-z0-9_][A-Za-z0-9._-]*)*")
_ARCHIVE = re.compile(r"(\d{4}-\d{2}-\d{2})_[A-Za-z0-9][A-Za-z0-9.-]*_[A-Za-z0-9][A-Za-z0-9.-]*\.tar\.zst", re.ASCII)
# Control, format (bidi marks, zero-width), surrogate, line and paragraph separators: invisible or not encodable.
_INVISIBLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def name_fault(name: str) -> str | None:
    """Why `name` is no relative POSIX path of visible text in NFC, or None if it is one."""
    if _PLAIN.fullmatch(name) and len(name) <= MAX_NAME_BYTES:
        return None  # nearly every name; the rest takes the long way
    if not name:
        return "is empty"
    if any(unicodedata.category(c) in _INVISIBLE for c in name):
        return "has control or invisible characters"
    if len(name.encode("utf-8")) > MAX_NAME_BYTES:
        return f"is longer than {MAX_NAME_BYTES} bytes"
    if name.startswith("/") or re.match(r"[A-Za-z]:", name):
        return "is absolute"
    if "\\" in name:
        return "has a backslash"
    components = name.split("/")
    if "" in components:
        return "has an empty component"
    if "." in components or ".." in components:
        return "has a '.' or '..' component"
    if any(c != c.strip() for c in components):
        return "has a component that begins or ends with white space"
    if unicodedata.normalize("NFC", name) != name:
        return "is not in Unicode normal form C"
    return None


def folded(name: str) -> str:
    """Equal for names that differ only by case or Unicode form (canonical caseless matching)."""
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", name).casefold())


def collision(names: Iterable[str]) -> tuple[str, str] | None:
    """The first two paths, folders included, that differ only by case or Unicode form, or are file and folder."""
    seen: dict[str, str] = {}  # folded path -> path; folders end with "/"
    for name in names:
        other = seen.setdefault(folded(name), name)
        if other is not name:
            return other, name
        end = name.rfind("/")
        while end > 0:
            folder = name[: end + 1]
            key = folded(folder[:-1])
            other = seen.setdefault(key, folder)
            if other != folder:
                return other, name
            if other is not folder:
                break  # known, and so are the folders above it
            end = name.rfind("/", 0, end)
    return None


def archive_name_fault(name: str) -> str | None:
    """Why `name` is not DATE_DEVICE_SUBJECT.tar.zst with a real date (YYYY-MM-DD), or None."""
    match = _ARCHIVE.fullmatch(name)
    if match is None:
        return "is not DATE_DEVICE_SUBJECT.tar.zst (letters, digits, '.' and '-' in each part)"
    try:
        date.fromisoformat(match[1])
    except ValueError:
        return f"begins with {match[1]}, which is no day of the calendar"
    return None


def check_archive_name(name: str) -> None:
    """Raise UsageError for a name that `archive_name_fault` refuses."""
    if fault := archive_name_fault(name):
        raise UsageError(
            f"archive name {name!r}",
            found=fault,
            expected="for example 2026-12-01_h200_core-panel.tar.zst",
            hint="choose such a name for -o",
        )
