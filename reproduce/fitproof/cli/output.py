"""What verbs print: data to stdout as a plain table or JSON, everything else to stderr.

Both survive odd surroundings: an ASCII-only locale, a closed stdout, a reader that stops early (`| head`). In the last
case the rest of the data is dropped and the verb goes on to its real exit code.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TextIO

from ..errors import EnvironmentLacks


def harden_streams() -> None:
    """Make stdout and stderr take any text in any locale, and exist even where the caller closed them."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller: Python leaves None
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (lives as long as the process)
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def say(text: str) -> None:
    """One line for the reader, to stderr."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        _drop(sys.stderr)  # nobody can be told; the exit code still says how it ended


def _drop(stream: TextIO) -> None:
    """Point the stream's descriptor to nowhere, so that the interpreter's last flush is quiet too."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def emit(text: str) -> None:
    """Data, to stdout. Raises EnvironmentLacks where it takes none, such as a file on a full disk."""
    try:
        print(text, flush=True)
    except BrokenPipeError:  # the reader has gone
        _drop(sys.stdout)
    except OSError as error:
        _drop(sys.stdout)
        raise EnvironmentLacks(
            "stdout", found=error.strerror or str(error), expected="room for the data", hint="write it somewhere else"
        ) from None


def emit_json(value: object) -> None:
    """One JSON document, pure ASCII, so that no locale can break it."""
    emit(json.dumps(value, indent=2, ensure_ascii=True, default=str))


def emit_rows(rows: Sequence[Mapping[str, object]], *, as_json: bool, columns: Sequence[str] = ()) -> None:
    """Rows as a table of `columns` (default: the first row's keys), or all of them as a JSON list."""
    if as_json:
        emit_json([dict(row) for row in rows])
    elif rows:
        emit(text_table(columns or list(rows[0]), [[row.get(c) for c in columns or row] for row in rows]))


def text_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns padded with spaces, numbers to the right. No colour and no frame: it pastes and greps well."""
    shown = [list(header), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(line[i]) for line in shown) for i in range(len(header))]
    right = [bool(rows) and all(_is_number(row[i]) for row in rows) for i in range(len(header))]
    lines = (
        "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right, strict=True))
        for line in shown
    )
    return "\n".join(line.rstrip() for line in lines)


def fit(header: Sequence[str], rows: Sequence[Sequence[object]], width: int) -> int:
    """How many leading columns of the table fit into `width` characters; at least one."""
    used = -2
    for index, name in enumerate(header):
        used += 2 + max(len(name), *(len(_cell(row[index])) for row in rows), 0)
        if used > width:
            return max(index, 1)
    return len(header)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.3f}"
    if isinstance(value, int):
        return f"{value:,}"
    return " ".join(str(value).split())


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
