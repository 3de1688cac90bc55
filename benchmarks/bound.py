"""The stated bound of the reduction: what no pipeline that checks and reads all its evidence can avoid, done serially.

For each archive, one after the other, on one connection: SHA-256 of the file; Zstandard decompression; a walk of the
tar with SHA-256 of every member; DuckDB reading the CSV into one table, events.jsonl and the other JSON into tables
of their own. DuckDB's part is measured twice, because it decides: from one joined file a kind (`joined`, the harder
bound; joining is not timed) and from the members as files of their own (`members`, what an analyst would do after
unpacking; unpacking is not timed).
"""

import hashlib
import io
import tarfile
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import duckdb
import zstandard
from fitproof.schema import records

SQL_TYPES = {"str": "VARCHAR", "int": "BIGINT", "bool": "BOOLEAN", "object": "JSON", "list": "JSON", "any": "JSON"}


@dataclass(kw_only=True, slots=True)
class Bound:
    """Seconds of each part, summed over the archives, and what was read."""

    sha256: float = 0.0
    decompression: float = 0.0
    walk: float = 0.0
    joined_read: float = 0.0
    members_read: float = 0.0
    members: int = 0
    rows: int = 0

    @property
    def joined(self) -> float:
        return self.sha256 + self.decompression + self.walk + self.joined_read

    @property
    def by_member(self) -> float:
        return self.sha256 + self.decompression + self.walk + self.members_read


def _columns(spec: tuple[records.Field, ...]) -> dict[str, str]:
    return {f.name: SQL_TYPES[f.kind] for f in spec}


EVENT_COLUMNS = _columns(records.EVENT_COMMON)
for _fields in records.EVENTS.values():
    EVENT_COLUMNS |= _columns(_fields)
TABLES = {
    "memory.csv": dict.fromkeys(records.MEMORY_CSV_HEADER.split(","), "BIGINT"),
    "events.jsonl": EVENT_COLUMNS,
    "ledger.jsonl": _columns(records.LEDGER),
    "plan.json": _columns(records.PLAN),
    "trial.json": _columns(records.TRIAL),
    "environment.json": _columns(records.ENVIRONMENT),
    "result.json": _columns(records.RESULT),
}


def measure_bound(archives: list[Path]) -> Bound:
    """Read every archive once. Memory and scratch disk hold one archive at a time."""
    bound = Bound()
    with duckdb.connect() as db:
        for path in archives:
            contents = _walk(path, bound)
            with tempfile.TemporaryDirectory() as scratch:
                joined, single = _lay_out(contents, Path(scratch))
                contents.clear()
                start = time.perf_counter()
                for name, file in joined.items():
                    bound.rows += _read(db, name, [file], header=False)
                bound.joined_read += time.perf_counter() - start
                start = time.perf_counter()
                for name, files in single.items():
                    _read(db, name, files, header=True)
                bound.members_read += time.perf_counter() - start
    return bound


def _walk(path: Path, bound: Bound) -> dict[str, list[bytes]]:
    """Timed: digest, decompression, walk. Returns file name -> the contents of all members of that name."""
    start = time.perf_counter()
    with path.open("rb") as f:
        hashlib.file_digest(f, "sha256")
    bound.sha256 += time.perf_counter() - start

    start = time.perf_counter()
    with path.open("rb") as f, zstandard.ZstdDecompressor().stream_reader(f) as reader:
        plain = reader.read()
    bound.decompression += time.perf_counter() - start

    contents: dict[str, list[bytes]] = defaultdict(list)
    start = time.perf_counter()
    with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as tar:
        for info in tar:
            if not info.isreg():
                continue
            data = tar.extractfile(info).read()
            hashlib.sha256(data).digest()
            bound.members += 1
            name = info.name.rsplit("/", 1)[-1]
            if name in TABLES:
                contents[name].append(data)
    bound.walk += time.perf_counter() - start
    return contents


def _lay_out(contents: dict[str, list[bytes]], scratch: Path) -> tuple[dict[str, str], dict[str, list[str]]]:
    """One joined file a kind (the CSV without headers), and every member as a file of its own."""
    joined, single = {}, {}
    for name, parts in contents.items():
        whole = parts if name != "memory.csv" else [p.split(b"\n", 1)[1] for p in parts]
        (scratch / name).write_bytes(b"".join(whole))
        joined[name], single[name] = str(scratch / name), []
        for number, part in enumerate(parts):
            file = scratch / f"{number:06d}-{name}"
            file.write_bytes(part)
            single[name].append(str(file))
    return joined, single


def _read(db: duckdb.DuckDBPyConnection, name: str, files: list[str], *, header: bool) -> int:
    """Members of one kind into one table; returns its rows."""
    table, kind = name.partition(".")[::2]
    if kind == "csv":
        source = "read_csv($files, columns = $columns, header = $header, auto_detect = false, delim = ',', quote = '')"
    else:
        layout = "newline_delimited" if kind == "jsonl" else "unstructured"
        source = f"read_json($files, columns = $columns, format = '{layout}')"
    columns = "{" + ", ".join(f"'{key}': '{value}'" for key, value in TABLES[name].items()) + "}"
    source = source.replace("$columns", columns).replace("$header", str(header).lower())
    db.execute(f"CREATE OR REPLACE TABLE {table} AS FROM {source}", {"files": files})
    return db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
