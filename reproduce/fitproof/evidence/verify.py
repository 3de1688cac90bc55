"""Check a published tree without extracting anything: `fitproof verify`.

MANIFEST.sha256, release.json, sidecars, archive digests and every member's digest. All problems are collected, not
only the first. Whether the views follow from the archives is `fitproof reproduce`'s question.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fitproof.code import code_digest
from fitproof.errors import EvidenceError
from fitproof.evidence.files import REFETCH_HINT, read_sidecar
from fitproof.evidence.inputs import tally
from fitproof.evidence.manifest import BUILD_HINT, compare_manifest, published
from fitproof.evidence.names import archive_name_fault
from fitproof.evidence.problem import Problem
from fitproof.evidence.reader import read_members
from fitproof.evidence.release import ArchiveEntry, Release, read_release
from fitproof.evidence.root import RELEASE

Digests = Mapping[str, tuple[str, int]]


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchiveReport:
    """One archive as found: sizes are null where it could not be read to its end."""

    name: str
    ok: bool
    bytes: int | None
    tar_bytes: int | None
    members: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class VerifyReport:
    """`ok` means no problems. Notes are worth knowing and no problems. `seconds` is wall time."""

    ok: bool
    problems: tuple[Problem, ...]
    archives: tuple[ArchiveReport, ...]
    seconds: float
    notes: tuple[str, ...]


def verify(root: Path, *, progress: Callable[[int, int], None] | None = None) -> VerifyReport:
    """Check the tree at `root`. Bad evidence is reported, not raised. `progress(done, total)` counts archives."""
    start = time.monotonic()
    root = Path(root)
    notes: list[str] = []
    digests, problems = published(root)
    problems += compare_manifest(root, digests)
    release: Release | None = None
    try:
        release = read_release(root)
    except EvidenceError as error:
        problems.append(Problem.of(error))
    if release is not None:
        problems += _check_files(release, digests)
        if (found := code_digest()) != release.code_digest:
            notes.append(
                f"this code (digest {found}) is not the code that built {release.tag} (digest {release.code_digest})"
            )
    entries = {entry.name: entry for entry in release.archives} if release is not None else {}
    inside = (name.removeprefix("releases/") for name in digests if name.startswith("releases/"))
    there = {name for name in inside if name.endswith(".tar.zst")}
    reports = []
    for index, name in enumerate(sorted(there | entries.keys())):
        if progress is not None:
            progress(index, len(there | entries.keys()))
        report, wrong = _check_archive(root / "releases" / name, entries.get(name))
        reports.append(report)
        problems += wrong
    if progress is not None:
        progress(len(reports), len(reports))
    unique = tuple(sorted(set(problems)))
    return VerifyReport(
        ok=not unique,
        problems=unique,
        archives=tuple(reports),
        seconds=time.monotonic() - start,
        notes=tuple(notes),
    )


def _check_files(release: Release, digests: Digests) -> list[Problem]:
    """View files as release.json states them; archives and sidecars that it does not know."""
    problems = []
    stated = {file.path: (file.sha256, file.bytes) for view in release.views for file in view.files}
    for path, (sha256, size) in stated.items():
        if path not in digests:
            problems.append(Problem(path, "no such file", f"the file that {RELEASE} states", REFETCH_HINT))
        elif digests[path] != (sha256, size):
            found = f"{digests[path][1]} bytes, SHA-256 {digests[path][0]}"
            expected = f"{size} bytes, SHA-256 {sha256}, as {RELEASE} states"
            problems.append(Problem(path, found, expected, REFETCH_HINT))
    known = {f"releases/{archive.name}" for archive in release.archives}
    known |= {name + ".sha256" for name in known} | stated.keys()
    problems += [
        Problem(name, f"not in {RELEASE}", f"every view file, archive and sidecar in {RELEASE}", BUILD_HINT)
        for name in digests
        if name not in known and name.endswith((".parquet", ".tar.zst", ".sha256"))
    ]
    return problems


def _check_archive(path: Path, entry: ArchiveEntry | None) -> tuple[ArchiveReport, list[Problem]]:
    """Sidecar, digest and members of one archive; `entry` is what release.json states about it, if anything."""
    problems: list[Problem] = []
    if fault := archive_name_fault(path.name):
        problems.append(Problem(path.name, f"a name that {fault}", "DATE_DEVICE_SUBJECT.tar.zst"))
    expected = entry.sha256 if entry is not None else None
    try:
        stated = read_sidecar(path)
        if expected is not None and stated != expected:
            problems.append(Problem(path.name + ".sha256", stated, f"{expected}, as {RELEASE} states", REFETCH_HINT))
        expected = expected or stated
    except EvidenceError as error:
        problems.append(Problem.of(error))
    if expected is None:  # neither release.json nor a sidecar says what it must be: it stays closed
        return ArchiveReport(name=path.name, ok=False, bytes=None, tar_bytes=None, members=None), problems
    reader = read_members(
        path,
        expected_sha256=expected,
        expected_size=entry.bytes if entry is not None else None,
        expected_tar_sha256=entry.tar_sha256 if entry is not None else None,
    )
    try:
        names = [member.name for member in reader]
        if entry is not None:
            panels, attempts = tally(names)
            found = {"members": len(names), "panels": list(panels), "attempts": attempts}
            wanted = {"members": entry.members, "panels": list(entry.panels), "attempts": entry.attempts}
            problems += [
                Problem(path.name, f"{key} {found[key]}", f"{wanted[key]}, as {RELEASE} states", REFETCH_HINT)
                for key in found
                if found[key] != wanted[key]
            ]
    except EvidenceError as error:
        problems.append(Problem.of(error))
    report = ArchiveReport(
        name=path.name, ok=not problems, bytes=reader.bytes, tar_bytes=reader.tar_bytes, members=reader.members
    )
    return report, problems
