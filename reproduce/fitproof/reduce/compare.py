"""How a published view file differs from the rebuilt one: the first key and column, or only the encoding."""

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet

from ..schema.view import View
from .writer import arrow_schema, file_content_digest


def is_same_bytes(published: Path, rebuilt: Path) -> bool:
    return published.is_file() and published.read_bytes() == rebuilt.read_bytes()


def difference(published: Path, rebuilt: Path, view: View) -> tuple[str, str]:
    """(found, expected) in words, for two files whose bytes differ."""
    if not published.is_file():
        return "no such file", "the view's file"
    try:
        schema = pa.parquet.read_schema(published)
        if not schema.equals(arrow_schema(view)):
            return _schema_difference(schema, view)
        if file_content_digest(published) == file_content_digest(rebuilt):
            return "the same rows in another encoding", "the bytes that the pinned writer gives"
        return _row_difference(published, rebuilt, view)
    except (pa.ArrowException, OSError, duckdb.Error) as error:
        return f"no readable Parquet file ({str(error).splitlines()[0]})", "the view's file"


def _schema_difference(schema: pa.Schema, view: View) -> tuple[str, str]:
    wanted = arrow_schema(view)
    for found, expected in zip(schema, wanted, strict=False):
        if not found.equals(expected):
            return f"column {found}", f"column {expected}"
    return f"{len(schema)} columns", f"{len(wanted)} columns"


def _row_difference(published: Path, rebuilt: Path, view: View) -> tuple[str, str]:
    """The first row, in order of the key, that differs, and in it the first column."""
    keys = ", ".join(f'coalesce(p."{k}", r."{k}") AS "{k}"' for k in view.key)
    join = " AND ".join(f'p."{k}" IS NOT DISTINCT FROM r."{k}"' for k in view.key)
    columns = [c.name for c in view.columns if c.name not in view.key]
    pairs = "".join(f', p."{c}", r."{c}"' for c in columns)
    unequal = "".join(f' OR p."{c}" IS DISTINCT FROM r."{c}"' for c in columns)
    order = ", ".join(f"{i + 1} NULLS FIRST" for i in range(len(view.key)))
    query = f"""
        SELECT {keys}, p.is_there, r.is_there{pairs}
        FROM (SELECT *, true AS is_there FROM read_parquet($published)) AS p
        FULL JOIN (SELECT *, true AS is_there FROM read_parquet($rebuilt)) AS r ON {join}
        WHERE p.is_there IS NULL OR r.is_there IS NULL{unequal}
        ORDER BY {order} LIMIT 1"""
    with duckdb.connect() as connection:
        row = connection.execute(query, {"published": str(published), "rebuilt": str(rebuilt)}).fetchone()
        count = "SELECT count(*) FROM read_parquet($file)"
        rows = [connection.execute(count, {"file": str(path)}).fetchone()[0] for path in (published, rebuilt)]
    if row is None:
        return f"{rows[0]} rows, some repeated or out of order", f"{rows[1]} rows in the order of the key"
    n = len(view.key)
    where = "row " + ", ".join(f"{k}={v}" for k, v in zip(view.key, row[:n], strict=True))
    if row[n] is None:
        return f"{where} is missing", "the row"
    if row[n + 1] is None:
        return f"{where}, which the archives do not give", "no such row"
    values = row[n + 2 :]
    column, found, expected = next(
        (c, values[2 * i], values[2 * i + 1]) for i, c in enumerate(columns) if values[2 * i] != values[2 * i + 1]
    )
    return f"{where}: {column} = {found!r}", f"{column} = {expected!r}"
