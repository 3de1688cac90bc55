"""The DuckDB that one reduction works in: private, bounded in memory, spilling into a temporary folder."""

from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path

import duckdb
import pyarrow as pa

from .tables import SCHEMAS, definition

# Steps on everything, before the views, in two rounds of lanes. The lanes of a round run at the same time, the steps of
# a lane in order: on a small release most of their time is planning, which DuckDB does on one core.
FINAL_ROUNDS = (
    (("_core_attempts", "_core_stage_runs"), ("_core_overheads", "_core_stacks")),
    (("_core_trials",),),
)
# Views that are made one after the other, each with steps of its own before it; all others need none.
VIEWS_IN_ORDER = {
    "configurations": ("_core_configurations",),
    "predictions": ("_core_boundaries", "_core_predictions"),
    "prediction_errors": (),
}
# View -> the table without which it is empty: planning a statement costs more than a small release's answer to it.
SOURCES = {
    "predictions": "raw_predictions",
    "prediction_errors": "raw_predictions",
    "opd_workloads": "raw_workloads",
}
MEMORY_LIMIT = "320MiB"
INSERT_ROWS = 100_000  # that wait in Arrow, some 8 MB: a statement has a price of its own, and so has a commit


def sql(name: str) -> str:
    """Text of sql/<name>.sql."""
    return files(__package__).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")


class Database:
    """A connection with empty tables, made by `open`; as a context manager it is closed at the end.

    `threads` changes the speed, never the result. `scratch` is a folder for what does not fit in memory.
    """

    def __init__(self, scratch: Path, *, threads: int):
        self._options = {
            "threads": str(threads),
            "memory_limit": MEMORY_LIMIT,
            "temp_directory": str(scratch / "spill"),
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        }
        self.connection: duckdb.DuckDBPyConnection | None = None
        self._waiting: dict[str, list[pa.Table]] = {}
        self._filled: set[str] = set()

    def open(self) -> None:
        """Takes tens of milliseconds, without the interpreter's lock."""
        self.connection = duckdb.connect(config=self._options)
        self.connection.execute("SET GLOBAL TimeZone = 'UTC'")
        for name in SCHEMAS:
            if name != "raw_memory":  # samples are never kept whole
                self.connection.execute(definition(name))
        self.connection.execute("BEGIN TRANSACTION")

    def __enter__(self) -> "Database":
        return self

    def __exit__(self, *_: object) -> None:
        if self.connection is not None:
            self.connection.close()

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Another connection to the same tables, for another thread."""
        return self.connection.cursor()

    def insert(self, name: str, rows: pa.Table) -> None:
        """Append rows to a table, some time before `commit` ends. Nobody else sees them before."""
        if rows.num_rows:
            self._filled.add(name)
        self._waiting.setdefault(name, []).append(rows)
        if sum(table.num_rows for tables in self._waiting.values() for table in tables) > INSERT_ROWS:
            self._insert_waiting()

    def is_empty(self, view: str) -> bool:
        """Whether nothing was inserted that could give the view a row; False where only its statement can say."""
        return view in SOURCES and SOURCES[view] not in self._filled

    def commit(self) -> None:
        """End of all inserts."""
        self._insert_waiting()
        self.connection.execute("COMMIT")

    def _insert_waiting(self) -> None:
        for name, tables in self._waiting.items():
            self._append(name, pa.concat_tables(tables))
        self._waiting.clear()

    def _append(self, name: str, rows: pa.Table) -> None:
        self.connection.execute(f"INSERT INTO {name} FROM rows")  # DuckDB finds the argument by its name

    def run(self, steps: Iterable[str]) -> None:
        """Make the tables of these steps, in order; callable in any thread."""
        with self.cursor() as connection:
            for step in steps:
                connection.execute(f"CREATE TABLE {step.removeprefix('_')} AS {sql(step)}")

    def rows(self, name: str) -> Iterator[tuple]:
        """The rows of sql/<name>.sql; callable in any thread."""
        with self.cursor() as connection:
            yield from connection.execute(sql(name)).fetchall()
