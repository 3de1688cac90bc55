"""Maintainers' build: views, card, Croissant, release.json and MANIFEST.sha256 from the archives in releases/.

Everything is made in a temporary folder inside the root and then moved into place. Bad evidence leaves the root as it
was; a build that is cut off while moving is repaired by building again, and `fitproof verify` fails until then.
"""

import os
import subprocess
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

from .. import __version__
from ..code import code_digest
from ..errors import EvidenceError, UsageError
from ..evidence.files import hash_file, read_sidecar
from ..evidence.manifest import FIXED, MANIFEST, manifest_text
from ..evidence.release import RELEASE, Release, ViewEntry, ViewFile, archive_entry, dump_release
from ..hub.card import CARD, write_card
from ..hub.croissant import write_croissant
from ..schema.records import SCHEMA_VERSION
from ..schema.views import VIEWS
from .ingest import ARCHIVE_SUFFIX, ArchiveFile
from .reduction import ReducedView, reduce_archives
from .scratch import alone_in, scratch_folder

TOOLS = ("duckdb", "pyarrow", "zstandard")


def archives_below(root: Path) -> list[Path]:
    """The archives in releases/, by name."""
    return sorted((root / "releases").glob("*" + ARCHIVE_SUFFIX))


def build(
    root: Path,
    *,
    tag: str = f"v{__version__}",
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Release:
    """Write every generated file of the release at `root` and remove view files that no longer belong.

    Raises EvidenceError (bad evidence; nothing is changed) and UsageError (no archives, or files that a person writes
    are missing, or another build is at work). `progress(done, total)` counts archives.
    """
    root = Path(root).resolve()
    paths = archives_below(root)
    if not paths:
        raise UsageError(f"{root / 'releases'}", found="no archive", expected=f"DATE_DEVICE_SUBJECT{ARCHIVE_SUFFIX}",
                         hint="fitproof pack DIR... -o releases/ARCHIVE")  # fmt: skip
    by_hand = [name for name in FIXED if name not in (CARD, RELEASE)]
    missing = [name for name in by_hand if not (root / name).is_file()]
    if missing:
        raise UsageError(f"{root}", found=f"no {', '.join(missing)}", expected="the files that every release has")
    with alone_in(root, "build"), scratch_folder(root) as stage:
        archives = [ArchiveFile(path=path, sha256=read_sidecar(path)) for path in paths]
        views = reduce_archives(archives, stage, threads=threads, progress=progress)
        release = _release(root, stage, tag, paths, views)
        (stage / "views").mkdir(exist_ok=True)
        write_card(stage, tuple(VIEWS.values()))
        write_croissant(stage, tuple(VIEWS.values()))
        (stage / RELEASE).write_text(dump_release(release), encoding="utf-8")
        _move_into_place(stage, root)
    return release


def _release(root: Path, stage: Path, tag: str, archives: Sequence[Path], views: Sequence[ReducedView]) -> Release:
    entries = [_view_entry(stage, view) for view in views]
    return Release(
        schema_version=SCHEMA_VERSION,
        tag=tag,
        parent_commit=_commit(root),
        code_digest=code_digest(),
        writer=f"pyarrow {version('pyarrow')}",
        tools={name: version(name) for name in TOOLS},
        archives=tuple(archive_entry(path) for path in archives),
        views=tuple(sorted(entries, key=lambda entry: entry.name)),
    )


def _view_entry(stage: Path, view: ReducedView) -> ViewEntry:
    files = []
    for path in view.files:
        sha256, size = hash_file(stage / path, path)
        files.append(ViewFile(path=path, bytes=size, sha256=sha256))
    return ViewEntry(
        name=view.name, rows=view.rows, content_sha256=view.content_sha256, files=tuple(files), schema=VIEWS[view.name]
    )


def _move_into_place(stage: Path, root: Path) -> None:
    """views/ as a whole, then the files at the top, then the manifest over all of them."""
    if (root / "views").is_symlink():
        raise EvidenceError(f"{root / 'views'}", found="a symbolic link", expected="a folder that build may replace")
    if (root / "views").exists():
        (root / "views").rename(stage / "old-views")
    (stage / "views").rename(root / "views")
    for name in (CARD, RELEASE):
        os.replace(stage / name, root / name)
    (stage / MANIFEST).write_text(manifest_text(root), encoding="utf-8")
    os.replace(stage / MANIFEST, root / MANIFEST)


def _commit(root: Path) -> str | None:
    """The commit checked out at `root`; None where git says there is none yet."""
    command = ["git", "-C", str(root), "rev-parse", "--verify", "--quiet", "HEAD"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return found.stdout.strip() or None if found.returncode == 0 else None
