"""Run every check over the published Parquet files: the SQL files in checks/ and those that follow from the schema.

A check is one SELECT that must return no row. A check that cannot run (a column is gone) has failed too.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb

from .release import Release, connect
from .structure import structure_checks

CHECKS = Path(__file__).with_name("checks")
SHOWN_ROWS = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """One check that returned rows, or could not run."""

    check: str
    proves: str
    columns: tuple[str, ...]
    rows: tuple[tuple, ...]
    """At most SHOWN_ROWS of them."""
    count: int
    error: str = ""

    def render(self) -> str:
        lines = [f"{self.check}: {self.error or f'{self.count} rows'}", f"  proves: {self.proves}"]
        lines += [f"  {dict(zip(self.columns, row, strict=True))}" for row in self.rows]
        if self.count > len(self.rows):
            lines.append(f"  ... and {self.count - len(self.rows)} more")
        return "\n".join(lines)


def check_files() -> list[Path]:
    return sorted(CHECKS.glob("*.sql"))


def header(path: Path) -> str:
    """The comment lines at the top of a check: what it proves."""
    lines = path.read_text(encoding="utf-8").splitlines()
    text = [line.removeprefix("--").strip() for line in lines if line.startswith("--")]
    return " ".join(text)


def all_checks(release: Release) -> Iterator[tuple[str, str, str]]:
    """(name, what it proves, SELECT)."""
    for path in check_files():
        yield path.name, header(path), path.read_text(encoding="utf-8")
    for name, sql in structure_checks(release):
        yield name, "the schema in release.json", sql


def run_one(db: duckdb.DuckDBPyConnection, name: str, proves: str, sql: str) -> Failure | None:
    try:
        result = db.sql(sql)
        columns, rows = tuple(result.columns), result.fetchall()
    except duckdb.Error as error:
        return Failure(check=name, proves=proves, columns=(), rows=(), count=0, error=f"cannot run: {error}")
    if not rows:
        return None
    return Failure(check=name, proves=proves, columns=columns, rows=tuple(rows[:SHOWN_ROWS]), count=len(rows))


def run_checks(release: Release) -> tuple[int, list[Failure]]:
    """(number of checks run, those that failed)."""
    count, failures = 0, []
    with connect(release) as db:
        for name, proves, sql in all_checks(release):
            count += 1
            if failure := run_one(db, name, proves, sql):
                failures.append(failure)
    return count, failures
