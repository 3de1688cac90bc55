"""From archives to view files: `reduce_archives` ingests, runs the SQL, writes. Nothing outside `out` is touched."""

import hashlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ..schema.view import View
from ..schema.views import VIEWS
from .database import FINAL_ROUNDS, VIEWS_IN_ORDER, Database
from .ingest import ArchiveFile, check_events, ingest
from .scratch import scratch_folder
from .writer import write_view

WORKERS = 2  # steps of the SQL, and then views, that are made at the same time


@dataclass(frozen=True, kw_only=True, slots=True)
class ReducedView:
    """One view as written: `files` are relative to the output folder; empty where the view has no rows."""

    name: str
    rows: int
    content_sha256: str
    """Over the canonical rows of its files, in the order of the files."""
    files: tuple[str, ...]


def reduce_archives(
    archives: Iterable[ArchiveFile],
    out: Path,
    *,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[ReducedView]:
    """Write every view that has rows below `out`/views. Raises EvidenceError for bad evidence; then nothing is written.

    The order of `archives` and the number of `threads` do not change a byte. `progress(done, total)` counts archives.
    """
    archives = list(archives)
    with (
        scratch_folder() as scratch,
        Database(scratch, threads=threads or 1) as db,
        ThreadPoolExecutor(max_workers=WORKERS, thread_name_prefix="reduce") as pool,
    ):
        ingest(db, archives, progress)
        checked = pool.submit(check_events, db)
        for lanes in FINAL_ROUNDS:
            list(pool.map(db.run, lanes))
        checked.result()
        return _write_all(db, out, archives, pool)


def _write_all(db: Database, out: Path, archives: list[ArchiveFile], pool: ThreadPoolExecutor) -> list[ReducedView]:
    """All views in the order of the schema; those of a file per archive are begun first, for they take longest."""
    alone = [(view,) for view in VIEWS.values() if view.name not in VIEWS_IN_ORDER]
    alone.sort(key=lambda views: not views[0].is_per_archive)
    lanes = [*alone[:1], tuple(VIEWS[name] for name in VIEWS_IN_ORDER), *alone[1:]]
    written = {
        view.name: view for made in pool.map(lambda lane: _write(db, lane, out, archives), lanes) for view in made
    }
    return [written[name] for name in VIEWS]


def _write(db: Database, lane: Iterable[View], out: Path, archives: list[ArchiveFile]) -> list[ReducedView]:
    """The views of a lane, one after the other."""
    made = []
    for view in lane:
        if db.is_empty(view.name):
            made.append(ReducedView(name=view.name, rows=0, content_sha256=hashlib.sha256().hexdigest(), files=()))
            continue
        db.run(VIEWS_IN_ORDER.get(view.name, ()))
        made.append(_write_one(db, view, out, archives))
    return made


def _write_one(db: Database, view: View, out: Path, archives: list[ArchiveFile]) -> ReducedView:
    digest = hashlib.sha256()
    if view.is_per_archive:
        names = sorted(archive.name for archive in archives)
        places = [(f"views/{view.name}/{name}.parquet", {"archive": name}) for name in names]
    else:
        places = [(f"views/{view.name}.parquet", None)]
    with db.cursor() as connection:
        counts = {path: write_view(connection, view, out / path, digest, parameters) for path, parameters in places}
    written = tuple(path for path, rows in counts.items() if rows)
    return ReducedView(name=view.name, rows=sum(counts.values()), content_sha256=digest.hexdigest(), files=written)
