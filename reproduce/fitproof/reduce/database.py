"""The DuckDB that one reduction works in: private, bounded in memory, spilling into a temporary folder."""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import duckdb
import pyarrow as pa

from .tables import SCHEMAS, definition

# Steps on one batch of attempts, in order. What the first two make serves the others and goes with the batch.
BATCH_STEPS = ("_core_intervals", "_core_samples", "_core_thinned", "_core_interval_peaks", "_core_overheads")
# Steps on everything, in order, before the views.
FINAL_STEPS = (
    "_core_attempts",
    "_core_stacks",
    "_core_stage_runs",
    "_core_trials",
    "_core_configurations",
    "_core_boundaries",
    "_core_predictions",
)
OF_ONE_BATCH = ("_core_intervals", "_core_samples")
MEMORY_LIMIT = "320MiB"


def sql(name: str) -> str:
    """Text of sql/<name>.sql."""
    return files(__package__).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")


class Database:
    """A connection with empty raw tables. `threads` changes the speed, never the result."""

    def __init__(self, scratch: Path, *, threads: int):
        options = {"threads": str(threads), "memory_limit": MEMORY_LIMIT, "temp_directory": str(scratch / "spill"),
                   "autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}  # fmt: skip
        self.connection = duckdb.connect(config=options)
        self.connection.execute("SET GLOBAL TimeZone = 'UTC'")
        for name in SCHEMAS:
            if name not in ("raw_memory", "batch_attempts"):  # of one batch only; samples are never kept whole
                self.connection.execute(definition(name))
        self._has_cores = False

    def close(self) -> None:
        self.connection.close()

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Another connection to the same tables, for another thread."""
        return self.connection.cursor()

    def insert(self, name: str, rows: pa.Table) -> None:
        if rows.num_rows:
            self.connection.register("arrow_rows", rows)
            self.connection.execute(f"INSERT INTO {name} FROM arrow_rows")
            self.connection.unregister("arrow_rows")

    def replace(self, name: str, rows: pa.Table) -> None:
        """Let `name` stand for these rows, without a copy, until the next call."""
        self.connection.register(name, rows)

    def run_batch(self) -> None:
        """Keep the batch's events, and of its samples what the views need."""
        self.connection.execute("INSERT INTO raw_events FROM batch_events")
        for step in BATCH_STEPS:
            table = step.removeprefix("_")
            if step in OF_ONE_BATCH:
                self.connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS {sql(step)}")
            elif self._has_cores:
                self.connection.execute(f"INSERT INTO {table} {sql(step)}")
            else:
                self.connection.execute(f"CREATE TABLE {table} AS {sql(step)}")
        self._has_cores = True

    def run_final(self) -> None:
        for step in FINAL_STEPS:
            self.connection.execute(f"CREATE TABLE {step.removeprefix('_')} AS {sql(step)}")

    def rows(self, name: str) -> Iterator[tuple]:
        """The rows of sql/<name>.sql."""
        yield from self.connection.execute(sql(name)).fetchall()
