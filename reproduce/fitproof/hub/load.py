"""Load a published view: `fitproof.load("trials")` gives a DuckDB relation with .pl(), .df() and .arrow().

Relations live on DuckDB's default connection, so two of them can be joined: duckdb.sql("FROM trials JOIN configurations
USING (configuration_id)") with both as Python variables. Nothing is downloaded and no digest is checked here; that is
what `fitproof verify` does.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import CheckFailed, EnvironmentLacks, UsageError
from ..root import release_root

if TYPE_CHECKING:
    import duckdb

LFS_POINTER = b"version https://git-lfs"


def view_files(root: Path, name: str) -> list[Path]:
    """The Parquet files of one view, sorted: views/<name>.parquet, or views/<name>/*.parquet. Empty: no such view."""
    single = root / "views" / f"{name}.parquet"
    if single.is_file():
        return [single]
    return sorted((root / "views" / name).glob("*.parquet"))


def existing_views(root: Path) -> list[str]:
    """Names of the views that have files under `root`, sorted."""
    folder = root / "views"
    names = {p.stem for p in folder.glob("*.parquet")} | {p.parent.name for p in folder.glob("*/*.parquet")}
    return sorted(names)


def load(view: str, root: str | Path | None = None) -> "duckdb.DuckDBPyRelation":
    """All rows of one view as a DuckDB relation, in the published order.

    `root` is the release folder; without it the nearest ancestor of the current directory with a release.json.
    Raises UsageError for an unknown view (the message lists what exists), CheckFailed for an LFS pointer or a file that
    is no Parquet, EnvironmentLacks without duckdb.
    """
    try:
        import duckdb
    except ImportError:
        raise EnvironmentLacks("duckdb", found="not installed", hint="pip install duckdb") from None
    folder = release_root(root)
    files = view_files(folder, view)
    if not files:
        raise UsageError(
            f"view {view!r}",
            found=f"no file under {folder / 'views'}",
            expected="one of: " + (", ".join(existing_views(folder)) or "none yet; nothing has been built here"),
            hint="fitproof views",
        )
    for path in files:
        with path.open("rb") as stream:
            head = stream.read(len(LFS_POINTER))
        where = path.relative_to(folder).as_posix()
        if head == LFS_POINTER:
            raise CheckFailed(where, found="a Git LFS pointer", expected="a Parquet file", hint="git lfs pull")
        if head[:4] != b"PAR1":
            raise CheckFailed(
                where, found="no Parquet file", expected="what MANIFEST.sha256 lists", hint="fitproof verify"
            )
    try:
        return duckdb.read_parquet([str(path) for path in files])
    except duckdb.Error as error:
        raise _damaged(view, error) from None


def fetch(relation: "duckdb.DuckDBPyRelation", view: str) -> list[tuple]:
    """All rows of a relation over a view. Raises CheckFailed where a file turns out to be damaged in its middle."""
    import duckdb

    try:
        return relation.fetchall()
    except duckdb.Error as error:
        raise _damaged(view, error) from None


def _damaged(view: str, error: Exception) -> CheckFailed:
    return CheckFailed(
        f"view {view}",
        found=" ".join(str(error).split()),
        expected="the Parquet files that MANIFEST.sha256 lists",
        hint="fitproof verify",
    )
