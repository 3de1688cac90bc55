"""What is published, as release.json tells it: views with their columns and rules, archives with their digests."""

import json
from dataclasses import dataclass
from pathlib import Path

import duckdb


class NotPublished(Exception):
    """The folder holds no readable release."""


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """One view: its Parquet files (none where it has no rows) and the copy of its schema."""

    name: str
    files: tuple[Path, ...]
    rows: int
    key: tuple[str, ...]
    columns: tuple[dict, ...]
    """name, type, unit, null, meaning of each column, in order."""
    foreign_keys: tuple[dict, ...]
    """columns, view, references of each."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Release:
    root: Path
    content: dict
    views: dict[str, View]
    archives: dict[str, dict]
    """file name -> its entry in release.json."""


def read_release(root: Path) -> Release:
    """Raises NotPublished with the path and the reason."""
    path = root / "release.json"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        views = {v["name"]: _view(root, v) for v in content["views"]}
        archives = {a["name"]: a for a in content["archives"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NotPublished(f"{path}: {type(error).__name__}: {error}") from None
    return Release(root=root, content=content, views=views, archives=archives)


def _view(root: Path, entry: dict) -> View:
    schema = entry["schema"]
    return View(
        name=entry["name"],
        files=tuple(root / f["path"] for f in entry["files"]) if entry["rows"] else (),
        rows=entry["rows"],
        key=tuple(schema["key"]),
        columns=tuple(schema["columns"]),
        foreign_keys=tuple(schema["foreign_keys"]),
    )


def connect(release: Release) -> duckdb.DuckDBPyConnection:
    """A database in memory with one view per published view, empty where it has no file, in the schema's types.

    Raises NotPublished where a file is no readable Parquet.
    """
    db = duckdb.connect()
    for view in release.views.values():
        columns = ", ".join(f'"{c["name"]}" {c["type"]}' for c in view.columns)
        files = ", ".join(f"'{file}'" for file in view.files)
        source = f"VIEW {view.name} AS FROM read_parquet([{files}])" if files else f"TABLE {view.name} ({columns})"
        try:
            db.execute(f"CREATE {source}")
        except duckdb.Error as error:
            db.close()
            raise NotPublished(f"view {view.name}: {error}") from None
    return db
