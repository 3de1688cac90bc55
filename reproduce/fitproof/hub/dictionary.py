"""views/README.md: every view and every column, from the schema."""

from collections.abc import Mapping, Sequence

from ..schema.view import Column, View
from .frontmatter import data_path

INTRODUCTION = """\
# Views: the data dictionary

Generated from the schema by `fitproof build`; do not edit. One Parquet file per view (`memory_samples`: one per
archive). Rows are sorted by the key, and the key is unique. Bytes are integers; seconds and MiB are exact integers
divided once. A null means what the column says it means: missing evidence or not applicable, never zero.
"""


def dictionary(views: Sequence[View], rows: Mapping[str, int]) -> str:
    """Markdown text. `views` are all views of the schema, `rows` holds those that exist with at least one row."""
    parts = [INTRODUCTION, "| view | rows | split | one row is |\n|---|---|---|---|"]
    parts[-1] += "".join(
        f"\n| [{v.name}](#{v.name}) | {_count(rows, v.name)} | `{v.split}` | {cell(v.grain)} |" for v in views
    )
    return "\n\n".join([part.rstrip("\n") for part in parts] + [_section(v, rows) for v in views]) + "\n"


def _section(view: View, rows: Mapping[str, int]) -> str:
    lines = [
        f"## {view.name}",
        "",
        view.meaning,
        "",
        f"- file: `{data_path(view)}`, split `{view.split}`, rows: {_count(rows, view.name)}",
        f"- one row is: {view.grain}",
        f"- key and order: {', '.join(f'`{name}`' for name in view.key)}",
    ]
    for key in view.foreign_keys:
        here, there = ", ".join(f"`{c}`" for c in key.columns), ", ".join(f"`{c}`" for c in key.references)
        lines.append(f"- {here} names a row of [{key.view}](#{key.view}) ({there})")
    lines += ["", "| column | type | unit | null | meaning |", "|---|---|---|---|---|"]
    return "\n".join(lines + [_row(column) for column in view.columns])


def _row(column: Column) -> str:
    return f"| `{column.name}` | {column.type} | {cell(column.unit)} | {cell(column.null)} | {cell(column.meaning)} |"


def _count(rows: Mapping[str, int], name: str) -> str:
    return f"{rows[name]:,}" if name in rows else "none yet"


def cell(text: object) -> str:
    """One Markdown table cell: no line breaks, bars escaped, null as an empty cell."""
    return "" if text is None else " ".join(str(text).split()).replace("|", "\\|")
