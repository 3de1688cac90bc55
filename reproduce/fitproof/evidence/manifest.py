"""MANIFEST.sha256: every published file with its SHA-256, in the form that `sha256sum -c` reads.

The check is stricter than sha256sum: the text must be the canonical one (LF, lower-case hex, two spaces, sorted by
bytes, no duplicates, final line feed) and must list every published file. Names in a manifest are only compared with
the files found in the tree, never opened.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from fitproof.errors import EvidenceError
from fitproof.evidence.files import LFS_HEAD, LFS_HINT, REFETCH_HINT, hash_file, is_lfs_pointer, open_regular
from fitproof.evidence.names import collision, name_fault
from fitproof.evidence.problem import Problem

MANIFEST = "MANIFEST.sha256"
FIXED = ("CHANGELOG.md", "CITATION.cff", "LICENSE", "README.md", "RIGHTS.md", "release.json")
FOLDERS = ("releases", "views")
MAX_MANIFEST_BYTES = 1 << 26

BUILD_HINT = "maintainers: fitproof build; everyone else: " + REFETCH_HINT
_LINE = re.compile(r"([0-9A-Fa-f]{64}) [ *](.+)", re.ASCII)


def published(root: Path) -> tuple[dict[str, tuple[str, int]], list[Problem]]:
    """(name -> (SHA-256, bytes) of every published file, what is wrong with the set of them)."""
    problems = [
        Problem(name, "no such file", "a published file", BUILD_HINT) for name in FIXED if not (root / name).exists()
    ]
    names = [name for name in FIXED if (root / name).exists()]
    waiting = [folder for folder in FOLDERS if (root / folder).is_dir()]
    while waiting:
        folder = waiting.pop()
        for entry in os.scandir(root / folder):
            name = f"{folder}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                waiting.append(name)
            elif fault := name_fault(name):
                problems.append(Problem(repr(name), f"a name that {fault}", "a relative path of visible text"))
            elif name.endswith(".tmp"):
                problems.append(Problem(name, "what an interrupted command left", "published files only", f"rm {name}"))
            else:
                names.append(name)
    if pair := collision(sorted(names)):
        problems.append(Problem(f"{pair[0]} and {pair[1]}", "names that some file systems take for one"))
    digests: dict[str, tuple[str, int]] = {}
    for name in names:
        try:
            digests[name] = hash_file(root / name, name)
        except EvidenceError as error:
            problems.append(Problem.of(error))
    return digests, sorted(problems)


def canonical_text(digests: Mapping[str, str]) -> str:
    """One line per file, `HEX  NAME`, sorted by the UTF-8 bytes of the names."""
    return "".join(f"{digests[name]}  {name}\n" for name in sorted(digests, key=str.encode))


def manifest_text(root: Path) -> str:
    """The manifest of the files below `root`. EvidenceError if one of FIXED is absent or a file cannot be listed."""
    digests, problems = published(root)
    if problems:
        raise EvidenceError(
            f"{MANIFEST} cannot be written",
            found="; ".join(f"{p.subject}: {p.found}" for p in problems),
            expected=f"{', '.join(FIXED)}, and plain files below {' and '.join(FOLDERS)}",
        )
    return canonical_text({name: sha256 for name, (sha256, _) in digests.items()})


def check_manifest(root: Path) -> list[Problem]:
    """Everything in which MANIFEST.sha256 and the published files differ, sorted."""
    digests, problems = published(root)
    return sorted(problems + compare_manifest(root, digests))


def compare_manifest(root: Path, digests: Mapping[str, tuple[str, int]]) -> list[Problem]:
    """`check_manifest` for digests that are known already."""
    try:
        with open_regular(root / MANIFEST, MANIFEST) as file:
            data = file.read(MAX_MANIFEST_BYTES)
        text = data.decode("utf-8")
    except EvidenceError as error:
        return [Problem(MANIFEST, error.found, "the list of published files", BUILD_HINT)]
    except UnicodeDecodeError:
        return [Problem(MANIFEST, "bytes that are not UTF-8", "UTF-8 text", BUILD_HINT)]
    if data.startswith(LFS_HEAD):
        return [Problem(MANIFEST, "a Git LFS pointer", "the list of published files", LFS_HINT)]
    listed: dict[str, str] = {}
    problems: list[Problem] = []
    lines = text.split("\n")
    for number, line in enumerate(lines[:-1] if lines[-1] == "" else lines, 1):
        match = _LINE.fullmatch(line.removesuffix("\r"))
        if match is None:
            problems.append(Problem(f"{MANIFEST}:{number}", repr(line[:200]), "HEX  NAME", BUILD_HINT))
        else:
            listed.setdefault(match[2], match[1].lower())
    if not problems and (form := _form_difference(text, canonical_text(listed))):
        problems.append(form)
    for name, sha256 in listed.items():
        if name not in digests:
            problems.append(Problem(name, f"listed in {MANIFEST}, but not there", "a published file", REFETCH_HINT))
        elif digests[name][0] != sha256:
            problems.append(_changed(root, name, digests[name][0], sha256))
    problems += [
        Problem(name, f"not listed in {MANIFEST}", "every published file listed", BUILD_HINT)
        for name in digests
        if name not in listed
    ]
    return sorted(problems)


def _changed(root: Path, name: str, found: str, expected: str) -> Problem:
    if is_lfs_pointer(root / name):
        return Problem(name, "a Git LFS pointer", "the file itself", LFS_HINT)
    return Problem(name, f"SHA-256 {found}", f"SHA-256 {expected}, as {MANIFEST} lists it", REFETCH_HINT)


def _form_difference(text: str, canonical: str) -> Problem | None:
    """The first line in which a manifest that parses is not written canonically."""
    if text == canonical:
        return None
    found, expected = text.split("\n"), canonical.split("\n")
    number = next((i for i, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b), len(expected) - 1)
    return Problem(
        f"{MANIFEST}:{number + 1}",
        f"{found[number]!r}" if number < len(found) else "no final line feed",
        f"{expected[number]!r}, canonically (LF, lower-case hex, two spaces, sorted by bytes, no duplicates)",
        BUILD_HINT,
    )
