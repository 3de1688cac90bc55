"""Verbs on the published release: verify, reproduce, build, views, show. Imports happen inside: help must be quick."""

import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ..root import release_root
from .output import emit, emit_json, emit_rows, fit, say, text_table
from .progress import progress_bar

Root = Annotated[
    Path | None,
    typer.Option("--root", metavar="DIR", help="Release folder; default: the nearest one above with release.json."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON to stdout.")]


def verify(root: Root = None, as_json: Json = False) -> None:
    """Check every published byte; nothing is extracted.

    MANIFEST.sha256, release.json, archive digests and every member's digest. All problems are printed, not only the
    first. Exit code 1 when there is one.

    \b
    Examples:
      fitproof verify
      fitproof verify --root ~/fitproof --json
    """
    from ..evidence.verify import verify as check

    with progress_bar("verifying", "archives") as progress:
        report = check(release_root(root), progress=progress)
    if as_json:
        emit_json(asdict(report))
    else:
        if report.archives:
            header = ["archive", "ok", "bytes", "tar bytes", "members"]
            emit(text_table(header, [[a.name, a.ok, a.bytes, a.tar_bytes, a.members] for a in report.archives]))
        _say_notes_and_problems(report)
        say(f"{'ok' if report.ok else 'FAILED'}: {len(report.archives)} archives in {report.seconds:.1f} s")
    if not report.ok:
        raise typer.Exit(1)


def _say_notes_and_problems(report) -> None:
    for note in report.notes:
        say(f"note: {note}")
    for problem in report.problems:
        say(str(problem))


def reproduce(root: Root = None, as_json: Json = False) -> None:
    """Rebuild every view and compare it with the published one.

    Verifies every archive first. Needs no GPU and no PyTorch, and writes nothing into the release. Exit code 1 when
    anything differs.

    \b
    Examples:
      fitproof reproduce
      fitproof reproduce --json
    JSON:
      {"ok": true, "views": [{"name": "trials", "rows": 90, "identical": true}], "seconds": 1.5}
      and "problems" where there are any
    """
    from ..reduce.reproduce import reproduce as rebuild

    with progress_bar("reproducing", "archives") as progress:
        report = rebuild(release_root(root), progress=progress)
    views = [{"name": v.name, "rows": v.rows, "identical": v.identical} for v in report.views]
    if as_json:
        document = {"ok": report.ok, "views": views, "seconds": report.seconds}
        emit_json(document | ({"problems": [asdict(p) for p in report.problems]} if report.problems else {}))
    else:
        emit_rows(views, as_json=False)
        _say_notes_and_problems(report)
        same = sum(view["identical"] for view in views)
        say(f"{'ok' if report.ok else 'FAILED'}: {same} of {len(views)} views identical, {report.seconds:.1f} s")
    if not report.ok:
        raise typer.Exit(1)


def build(root: Root = None, as_json: Json = False) -> None:
    """Maintainers: write views, card, release.json and MANIFEST.sha256.

    All of them follow from the archives in releases/ and the schema; none is ever edited or merged by hand.

    \b
    Example:
      fitproof build --root .
    """
    from ..reduce.build import build as write

    with progress_bar("building", "archives") as progress:
        release = write(release_root(root), progress=progress)
    emit_rows([{"name": v.name, "rows": v.rows} for v in release.views], as_json=as_json)


def views(root: Root = None, as_json: Json = False) -> None:
    """List the views: rows, split, and what one row is.

    \b
    Examples:
      fitproof views
      fitproof views --json
    """
    from ..hub.load import fetch, load, view_files
    from ..schema.views import VIEWS

    folder = release_root(root)
    rows = []
    for view in VIEWS.values():
        files = view_files(folder, view.name)
        [(count,)] = fetch(load(view.name, folder).count("*"), view.name) if files else [(0,)]
        paths = [path.relative_to(folder).as_posix() for path in files]
        rows.append({"name": view.name, "rows": count, "split": view.split, "grain": view.grain, "files": paths})
    emit_rows(rows, as_json=as_json, columns=("name", "rows", "split", "grain"))


def show(
    view: Annotated[str, typer.Argument(help="Name of a view; `fitproof views` lists them.")],
    root: Root = None,
    rows: Annotated[int, typer.Option("--rows", min=0, help="How many rows.")] = 10,
    columns: Annotated[str | None, typer.Option(metavar="A,B,...", help="Only these columns, in this order.")] = None,
    as_json: Json = False,
) -> None:
    """Print the first rows of a view. A terminal gets as many columns as fit; a pipe gets all of them.

    \b
    Examples:
      fitproof show configurations
      fitproof show trials --columns model_id,state,peak_reserved_bytes --rows 50
      fitproof show failures --json
    """
    from ..errors import UsageError
    from ..hub.load import fetch, load

    relation = load(view, root)
    names = [name.strip() for name in columns.split(",")] if columns else list(relation.columns)
    unknown = [name for name in names if name not in relation.columns]
    if unknown:
        hint = f"fitproof show {view} --rows 0  # prints the header"
        raise UsageError(f"view {view}", found=f"no column {', '.join(unknown)}",
                         expected="some of: " + ", ".join(relation.columns), hint=hint)  # fmt: skip
    found = fetch(relation.project(", ".join(f'"{name}"' for name in names)).limit(rows), view)
    if as_json:
        emit_json([dict(zip(names, row, strict=True)) for row in found])
        return
    is_wide_open = not sys.stdout.isatty()
    shown = len(names) if is_wide_open else fit(names, found, shutil.get_terminal_size().columns)
    emit(text_table(names[:shown], [row[:shown] for row in found]))
    if names[shown:]:
        say(f"{len(names) - shown} more columns: --columns {','.join(names[shown:])}")
    [(total,)] = fetch(relation.count("*"), view)
    say(f"{len(found):,} of {total:,} rows; python: fitproof.load({view!r}).df()")
