"""Verify a release, rebuild every view from its archives and compare it with the published one.

Nothing is written into the release. A view is identical when each of its files has the same bytes; where it has not,
the report names the file, and the first key and column that differ or that only the encoding does.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..errors import EvidenceError
from ..evidence.files import read_sidecar
from ..evidence.problem import Problem
from ..evidence.release import Release, read_release
from ..evidence.verify import verify
from ..schema.views import VIEWS
from .build import archives_below
from .compare import difference, is_same_bytes
from .ingest import ArchiveFile
from .reduction import ReducedView, reduce_archives
from .scratch import scratch_folder

HINT = "git checkout -- views/ release.json  # or get the release again; maintainers: fitproof build"


@dataclass(frozen=True, kw_only=True, slots=True)
class ViewReport:
    """One view: rows as rebuilt, and whether the published files are the same bytes."""

    name: str
    rows: int
    identical: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ReproduceReport:
    """`ok` means verified and every view identical. `seconds` is wall time."""

    ok: bool
    views: tuple[ViewReport, ...]
    seconds: float
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]


def reproduce(
    root: Path, *, threads: int | None = None, progress: Callable[[int, int], None] | None = None
) -> ReproduceReport:
    """Check the release at `root`. Bad evidence is reported, not raised; then there are no views to compare."""
    start = time.monotonic()
    root = Path(root)
    verified = verify(root)
    problems = list(verified.problems)
    views: list[ViewReport] = []
    with scratch_folder() as scratch:
        try:
            release = _release(root)
            rebuilt = reduce_archives(_archives(root, release), scratch, threads=threads, progress=progress)
        except EvidenceError as error:
            problems.append(Problem.of(error))
        else:
            for view in rebuilt:
                wrong = _compare(view, root, scratch, release)
                views.append(ViewReport(name=view.name, rows=view.rows, identical=not wrong))
                problems += wrong
            problems += _stale(root, rebuilt)
    unique = tuple(sorted(set(problems)))
    return ReproduceReport(
        ok=not unique,
        views=tuple(views),
        seconds=time.monotonic() - start,
        problems=unique,
        notes=verified.notes,
    )


def _release(root: Path) -> Release | None:
    """release.json; None where it is bad, which `verify` has reported."""
    try:
        return read_release(root)
    except EvidenceError:
        return None


def _archives(root: Path, release: Release | None) -> list[ArchiveFile]:
    """Every archive that lies there or that the release states, with the digest that release or sidecar states."""
    stated = {archive.name: archive.sha256 for archive in release.archives} if release is not None else {}
    names = sorted({path.name for path in archives_below(root)} | stated.keys())
    paths = [root / "releases" / name for name in names]
    return [ArchiveFile(path=path, sha256=stated.get(path.name) or read_sidecar(path)) for path in paths]


def _compare(view: ReducedView, root: Path, scratch: Path, release: Release | None) -> list[Problem]:
    problems = []
    for path in view.files:
        if not is_same_bytes(root / path, scratch / path):
            found, expected = difference(root / path, scratch / path, VIEWS[view.name])
            problems.append(Problem(path, found, f"{expected}, as the archives give it", HINT))
    entry = next((e for e in release.views if e.name == view.name), None) if release is not None else None
    if entry is not None and (entry.rows, entry.content_sha256) != (view.rows, view.content_sha256):
        found = f"{entry.rows} rows, content digest {entry.content_sha256}"
        expected = f"{view.rows} rows, content digest {view.content_sha256}, as the archives give them"
        problems.append(Problem(f"release.json: view {view.name}", found, expected, HINT))
    return problems


def _stale(root: Path, rebuilt: list[ReducedView]) -> list[Problem]:
    """View files that the archives do not give."""
    wanted = {path for view in rebuilt for path in view.files}
    there = {path.relative_to(root).as_posix() for path in (root / "views").rglob("*.parquet")}
    return [Problem(path, "a view file that the archives do not give", "no such file", HINT) for path in there - wanted]
