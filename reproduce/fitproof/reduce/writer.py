"""Views as Parquet files whose bytes depend on their rows alone, and the digest of the rows themselves.

Rows are sorted by the view's key. Encoding, compression and row groups are fixed, and the writer's version is part of
the file: pinned versions give equal bytes on every machine. The content digest is the SHA-256 of the canonical rows,
CSV with a header line per row group, LF, every value in double quotes, nulls empty, doubles in shortest form, UTC.
It tells a file that was encoded anew from one that says something else.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from ..schema.view import View
from .database import sql

ROW_GROUP_ROWS = 100_000
_ARROW = {"VARCHAR": pa.string(), "BIGINT": pa.int64(), "INTEGER": pa.int32(), "DOUBLE": pa.float64(),
          "BOOLEAN": pa.bool_(), "TIMESTAMP": pa.timestamp("us")}  # fmt: skip
PARQUET_OPTIONS = dict(compression="zstd", compression_level=3, version="2.6", data_page_version="1.0",
                       use_dictionary=True, write_statistics=True, store_schema=True)  # fmt: skip
_CSV_OPTIONS = pa.csv.WriteOptions(include_header=True, quoting_style="all_valid", batch_size=4096)


def arrow_schema(view: View) -> pa.Schema:
    return pa.schema([pa.field(c.name, _ARROW[c.type], nullable=c.is_nullable) for c in view.columns])


def query(view: View) -> str:
    """The view's SQL, cast to its schema and sorted by its key."""
    columns = ", ".join(f'CAST("{c.name}" AS {c.type}) AS "{c.name}"' for c in view.columns)
    order = ", ".join(f'"{name}" NULLS FIRST' for name in view.key)
    return f"SELECT {columns} FROM (\n{sql(view.name)}\n) ORDER BY {order}"


def groups(
    connection: duckdb.DuckDBPyConnection, view: View, parameters: dict[str, str] | None = None
) -> Iterator[pa.Table]:
    """The rows in order, as one contiguous table per row group. Columns that may not be null are checked."""
    schema = arrow_schema(view)
    relation = connection.sql(query(view), params=parameters or {})
    waiting: list[pa.RecordBatch] = []
    for batch in relation.to_arrow_reader(ROW_GROUP_ROWS):
        waiting.append(batch)
        while (count := sum(b.num_rows for b in waiting)) >= ROW_GROUP_ROWS:
            table = pa.Table.from_batches(waiting)
            yield _typed(table.slice(0, ROW_GROUP_ROWS), schema, view)
            waiting = table.slice(ROW_GROUP_ROWS).to_batches() if count > ROW_GROUP_ROWS else []
    if any(b.num_rows for b in waiting):
        yield _typed(pa.Table.from_batches(waiting), schema, view)


def _typed(table: pa.Table, schema: pa.Schema, view: View) -> pa.Table:
    nulls = [f.name for f in schema if not f.nullable and table[f.name].null_count]
    if nulls:
        raise ValueError(f"view {view.name}: nulls in {', '.join(nulls)}, which the schema says are never null")
    return table.cast(schema).combine_chunks()


def write_view(
    connection: duckdb.DuckDBPyConnection,
    view: View,
    path: Path,
    digest: "hashlib._Hash",
    parameters: dict | None = None,
) -> int:
    """Write one Parquet file, feed its canonical rows to `digest`, return the rows. Without rows no file appears."""
    rows = 0
    writer: pa.parquet.ParquetWriter | None = None
    try:
        for table in groups(connection, view, parameters):
            if writer is None:
                path.parent.mkdir(parents=True, exist_ok=True)
                writer = pa.parquet.ParquetWriter(path, table.schema, **PARQUET_OPTIONS)
            writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
            digest.update(canonical_rows(table))
            rows += table.num_rows
    finally:
        if writer is not None:
            writer.close()
    return rows


def canonical_rows(table: pa.Table) -> bytes:
    """Canonical rows of one row group, its header line included."""
    sink = pa.BufferOutputStream()
    pa.csv.write_csv(table, sink, _CSV_OPTIONS)
    return sink.getvalue().to_pybytes()


def file_content_digest(path: Path) -> str:
    """The content digest of one Parquet file as it lies there, however it was encoded."""
    digest = hashlib.sha256()
    table = pa.parquet.read_table(path)
    for start in range(0, table.num_rows, ROW_GROUP_ROWS):
        digest.update(canonical_rows(table.slice(start, ROW_GROUP_ROWS).combine_chunks()))
    return digest.hexdigest()
