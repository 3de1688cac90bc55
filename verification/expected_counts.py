"""Row counts that were looked at and committed: expected/row_counts.csv, one line per view and archive.

    python -m verification expect --reason "first release"    # write what is published now; then read the diff

The comparison goes both ways: a lost line, a surprising line and a changed number all fail. A line keeps the date and
reason under which its number was last written.
"""

import csv
import datetime
from pathlib import Path

from .release import Release, connect

FILE = Path(__file__).parent / "expected" / "row_counts.csv"
FIELDS = ("view", "archive", "rows", "date", "reason")
Key = tuple[str, str]


def published_counts(release: Release) -> dict[Key, int]:
    """(view, archive) -> rows. The archive is '' for the whole view; a column `archive` adds a line for each."""
    counts: dict[Key, int] = {}
    with connect(release) as db:
        for view in release.views.values():
            counts[view.name, ""] = db.execute(f'SELECT count(*) FROM "{view.name}"').fetchone()[0]
            if any(c["name"] == "archive" for c in view.columns):
                per = db.execute(f'SELECT archive, count(*) FROM "{view.name}" GROUP BY archive').fetchall()
                counts.update({(view.name, archive or "(null)"): rows for archive, rows in per})
    return counts


def read_expected(path: Path = FILE) -> dict[Key, dict]:
    if not path.exists():
        return {}
    with path.open(newline="", encoding="utf-8") as f:
        return {(row["view"], row["archive"]): row for row in csv.DictReader(f)}


def differences(release: Release, path: Path = FILE) -> list[str]:
    """Every disagreement in words, sorted."""
    found, expected = published_counts(release), read_expected(path)
    lines = []
    for key in sorted(found.keys() | expected.keys()):
        where = f"view {key[0]}" + (f", archive {key[1]}" if key[1] else "")
        if key not in expected:
            lines.append(f"{where}: {found[key]} rows are published, none were expected")
        elif key not in found:
            lines.append(f"{where}: {expected[key]['rows']} rows were expected, it is not published")
        elif found[key] != int(expected[key]["rows"]):
            row = expected[key]
            lines.append(f"{where}: {found[key]} rows, expected {row['rows']} ({row['date']}: {row['reason']})")
    return lines


def write_expected(release: Release, *, reason: str, date: datetime.date, path: Path = FILE) -> int:
    """Write what is published now; returns how many lines are new, changed or gone."""
    if not reason.strip():
        raise ValueError("a moved bound carries its reason")
    found, expected = published_counts(release), read_expected(path)
    moved, rows = len(expected.keys() - found.keys()), []
    for key in sorted(found):
        old = expected.get(key)
        if old and int(old["rows"]) == found[key]:
            rows.append(old)
            continue
        moved += 1
        rows.append({"view": key[0], "archive": key[1], "rows": found[key], "date": date.isoformat(), "reason": reason})
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as f:
        writer = csv.DictWriter(f, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return moved
