"""The stated bound of the reduction: what no pipeline that checks and reads all its evidence can avoid, done serially.

For each archive, one after the other, on one connection: SHA-256 of the file; Zstandard decompression; a walk of the
tar with SHA-256 of every member; DuckDB reading the CSV into one table, events.jsonl and the other JSON into tables
of their own. How DuckDB is fed decides, so there are two layouts: one joined file a kind (`joined`, the stated bound
and the harder one; joining is not timed) and every member as a file of its own (`members`, what one gets after
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


LAYOUTS = ("joined", "members")


@dataclass(kw_only=True, slots=True)
class Clock:
    """Wall and CPU seconds of what ran inside `with clock:`, summed."""

    wall: float = 0.0
    cpu: float = 0.0
    _start: tuple[float, float] = (0.0, 0.0)

    def __enter__(self) -> None:
        self._start = time.perf_counter(), time.process_time()

    def __exit__(self, *_: object) -> None:
        self.wall += time.perf_counter() - self._start[0]
        self.cpu += time.process_time() - self._start[1]


@dataclass(kw_only=True, slots=True)
class Bound:
    """What each part took, summed over the archives, and what was read."""

    parts: dict[str, Clock]
    members: int = 0
    rows: int = 0

    @property
    def seconds(self) -> float:
        return sum(clock.wall for clock in self.parts.values())

    @property
    def cpu_seconds(self) -> float:
        return sum(clock.cpu for clock in self.parts.values())


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


def measure_bound(archives: list[Path], layout: str) -> Bound:
    """Read every archive once; `layout` is one of LAYOUTS. Memory and scratch disk hold one archive at a time."""
    bound = Bound(parts={name: Clock() for name in ("archive SHA-256", "decompression", "tar walk", "DuckDB")})
    with duckdb.connect() as db:
        for path in archives:
            contents = _walk(path, bound)
            with tempfile.TemporaryDirectory() as scratch:
                files = _lay_out(contents, Path(scratch), layout)
                contents.clear()
                with bound.parts["DuckDB"]:
                    for name, paths in files.items():
                        bound.rows += _read(db, name, paths, header=layout == "members")
    return bound


def _walk(path: Path, bound: Bound) -> dict[str, list[bytes]]:
    """Timed: digest, decompression, walk. Returns file name -> the contents of all members of that name."""
    with bound.parts["archive SHA-256"], path.open("rb") as f:
        hashlib.file_digest(f, "sha256")
    with (
        bound.parts["decompression"],
        path.open("rb") as f,
        zstandard.ZstdDecompressor().stream_reader(f) as reader,
    ):
        plain = reader.read()
    contents: dict[str, list[bytes]] = defaultdict(list)
    with bound.parts["tar walk"], tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as tar:
        for info in tar:
            if not info.isreg():
                continue
            data = tar.extractfile(info).read()
            hashlib.sha256(data).digest()
            bound.members += 1
            name = info.name.rsplit("/", 1)[-1]
            if name in TABLES:
                contents[name].append(data)
    return contents


def _lay_out(contents: dict[str, list[bytes]], scratch: Path, layout: str) -> dict[str, list[str]]:
    """Files for DuckDB by kind: one joined file each (the CSV without headers), or every member as its own."""
    files: dict[str, list[str]] = {}
    for name, parts in contents.items():
        if layout == "joined":
            parts = [b"".join(p.split(b"\n", 1)[1] if name == "memory.csv" else p for p in parts)]
        files[name] = []
        for number, part in enumerate(parts):
            file = scratch / f"{number:06d}-{name}"
            file.write_bytes(part)
            files[name].append(str(file))
    return files


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
