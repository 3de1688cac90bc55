"""Checks that follow from the schema's copy in release.json: keys, foreign keys, null rules, types, row order, leaks.

Each is one SELECT that must return no row; `structure_checks` names them as the files in checks/ are named.
"""

from collections.abc import Iterator

from .release import Release, View

# Absolute paths, home folders, e-mail addresses, UUIDs, private host names (with a digit: threading.local is none).
LEAK = (
    r"(^|[\s\"''=:(,])(/(home|root|tmp|work|mnt|data|usr|opt|scratch|workspace|Users|var|proc)/|[A-Za-z]:\\)"
    r"|[\w.+-]+@[\w-]+\.[A-Za-z]{2,}"
    r"|GPU-[0-9a-f]{8}-|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|\b(localhost|[\w-]*\d[\w-]*\.(local|internal|lan|cluster|localdomain))\b"
)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def structure_checks(release: Release) -> Iterator[tuple[str, str]]:
    """(name, SELECT) of every structural check of this release."""
    for view in release.views.values():
        if not view.files:
            continue
        yield f"{view.name}: columns are the schema's", columns(view)
        yield f"{view.name}: key is unique", unique_key(view)
        yield f"{view.name}: key is the row order", key_order(view)
        for column in view.columns:
            if column["null"] == "never":
                yield f"{view.name}.{column['name']}: never null", never_null(view, column["name"])
            if column["type"] == "VARCHAR":
                yield f"{view.name}.{column['name']}: no host, user or path", no_leak(view, column["name"])
            if column["type"] == "DOUBLE":
                yield f"{view.name}.{column['name']}: finite", finite(view, column["name"])
        for foreign in view.foreign_keys:
            yield f"{view.name} -> {foreign['view']}", foreign_key(view, foreign)


def columns(view: View) -> str:
    """Columns that a file has and the schema does not, or the other way round; names and types."""
    told = ", ".join(f"('{c['name']}', '{c['type']}')" for c in view.columns)
    told = f"SELECT * FROM (VALUES {told}) AS told(name, type)"
    parts = []
    for file in view.files:
        there = f"SELECT column_name AS name, column_type AS type FROM (DESCRIBE FROM read_parquet('{file}'))"
        parts += [f"SELECT '{file.name}' AS file, * FROM (({there}) EXCEPT ({told}))",
                  f"SELECT '{file.name}', * FROM (({told}) EXCEPT ({there}))"]  # fmt: skip
    return " UNION ALL ".join(parts)


def unique_key(view: View) -> str:
    key = ", ".join(map(quoted, view.key))
    nulls = " OR ".join(f"{quoted(k)} IS NULL" for k in view.key)
    return f"SELECT {key}, count(*) AS rows FROM {quoted(view.name)} GROUP BY ALL HAVING count(*) > 1 OR {nulls}"


def key_order(view: View) -> str:
    """Rows that stand before a smaller key. Per-archive files are ordered each for itself."""
    key = ", ".join(map(quoted, view.key))
    parts = [
        f"SELECT '{file.name}' AS file, * FROM ("
        f"SELECT row({key}) AS this, lag(row({key})) OVER (ORDER BY file_row_number) AS before "
        f"FROM read_parquet('{file}', file_row_number = true)) WHERE before >= this"
        for file in view.files
    ]
    return " UNION ALL ".join(parts)


def never_null(view: View, column: str) -> str:
    key = ", ".join(map(quoted, view.key))
    return f"SELECT {key} FROM {quoted(view.name)} WHERE {quoted(column)} IS NULL"


def no_leak(view: View, column: str) -> str:
    return f"SELECT DISTINCT {quoted(column)} FROM {quoted(view.name)} WHERE regexp_matches({quoted(column)}, '{LEAK}')"


def finite(view: View, column: str) -> str:
    return f"SELECT {quoted(column)} FROM {quoted(view.name)} WHERE NOT isfinite({quoted(column)})"


def foreign_key(view: View, foreign: dict) -> str:
    """Rows whose (non-null) foreign key names no row of the other view."""
    mine = [f"a.{quoted(c)}" for c in foreign["columns"]]
    theirs = [f"b.{quoted(c)}" for c in foreign["references"]]
    present = " AND ".join(f"{m} IS NOT NULL" for m in mine)
    equal = " AND ".join(f"{m} = {t}" for m, t in zip(mine, theirs, strict=True))
    return (
        f"SELECT DISTINCT {', '.join(mine)} FROM {quoted(view.name)} a WHERE {present}"
        f" AND NOT EXISTS (FROM {quoted(foreign['view'])} b WHERE {equal})"
    )
