"""events.jsonl of many attempts at once, into one Arrow table, checked as exactly as if read line by line.

Two lines that differ only in their digits have the same keys and the same kinds of values. So one line of every such
shape is checked in full, field by field; Arrow's strict JSON reader then proves that every line parses, has no key
twice and holds 64-bit integers. Facts, whose value may be a number or text, are few and are read one by one. Only
lines that are known to be bad are searched in Python, to say which.
"""

import pyarrow as pa
import pyarrow.json

from ..schema.records import EVENTS, STAGES, event_spec
from .documents import RecordError, checked, strict_json, whole_lines
from .samples import Lines
from .tables import EVENT_FIELDS, SCHEMAS, run_lengths

_DIGITS = b"0123456789"
_SCHEMA = SCHEMAS["raw_events"]
_JSON_SCHEMA = pa.schema(list(EVENT_FIELDS.items()))
_known_shapes: set[bytes] = set()
_MOST_SHAPES = 100_000  # messages make new shapes; what is remembered stays bounded


def check_event(line: bytes, where: str) -> dict:
    """One event, checked in full. Raises EvidenceError."""
    if not (line.startswith(b"{") and line.endswith(b"}")):
        raise RecordError(where, found=repr(line[:200]), expected="one object, without space around it")
    record = strict_json(line, where)
    kind = record.get("event") if isinstance(record, dict) else None
    spec = event_spec(kind)
    if spec is None:
        raise RecordError(where, found=f"event {kind!r}", expected=f"one of: {', '.join(EVENTS)}")
    checked(record, spec, where)
    if "stage" in record and record["stage"] not in STAGES:
        raise RecordError(where, found=f"stage {record['stage']!r}", expected=f"one of: {', '.join(STAGES)}")
    if kind == "fact" and type(record["value"]) not in (int, str):
        raise RecordError(where, found=f"value {record['value']!r}", expected="an integer or a string")
    if kind == "fact" and type(record["value"]) is int and not -(2**63) <= record["value"] < 2**63:
        raise RecordError(where, found=f"value {record['value']}", expected="an integer of 64 bits")
    if kind == "failure" and not all(type(name) is str for name in record["exception_types"]):
        raise RecordError(where, found=f"exception_types {record['exception_types']}", expected="type names")
    return record


def parse_events(files: list[Lines]) -> pa.Table:
    """Rows of raw_events; `line` counts the lines of each file from 1. Raises EvidenceError for malformed lines."""
    plain: list[bytes] = []
    keys, counts, numbers, facts = [], [], [], []
    for file in files:
        lines = whole_lines(file.data, file.where, may_be_torn=file.may_be_torn).split(b"\n")[:-1]
        kept = [n for n, line in enumerate(lines, start=1) if b'"fact"' not in line]
        if len(kept) < len(lines):
            facts += [(file, n, line) for n, line in enumerate(lines, start=1) if b'"fact"' in line]
            lines = [lines[n - 1] for n in kept]
        plain += lines
        keys.append(file.attempt_key)
        counts.append(len(lines))
        numbers += kept
    tables = []
    if plain:
        rows = _parse_plain(plain, files)
        place = [run_lengths(keys, counts), pa.array(numbers, type=pa.int64())]
        empty = [pa.nulls(len(plain), type=_SCHEMA.field(name).type) for name in ("value_int", "value_text")]
        tables.append(pa.Table.from_arrays([*place, *rows.columns, *empty], schema=_SCHEMA))
    if facts:
        tables.append(pa.Table.from_pylist([_row(*fact) for fact in facts], schema=_SCHEMA))
    return pa.concat_tables(tables) if tables else _SCHEMA.empty_table()


def _parse_plain(lines: list[bytes], files: list[Lines]) -> pa.Table:
    joined = b"\n".join(lines)
    if not (joined.startswith(b"{") and joined.endswith(b"}") and joined.count(b"}\n{") == len(lines) - 1):
        _explain(files)
    shapes = joined.translate(None, _DIGITS).split(b"\n")
    for shape in set(shapes) - _known_shapes:
        try:
            check_event(lines[shapes.index(shape)], "")
        except RecordError:
            _explain(files)
        if len(_known_shapes) < _MOST_SHAPES:
            _known_shapes.add(shape)
    try:
        if not joined.isascii():
            joined.decode("utf-8")
        rows = pa.json.read_json(
            pa.BufferReader(joined),
            read_options=pa.json.ReadOptions(use_threads=False, block_size=1 << 24),
            parse_options=pa.json.ParseOptions(explicit_schema=_JSON_SCHEMA, unexpected_field_behavior="error"),
        )
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        _explain(files, str(error))
    names = [("event", EVENTS), ("stage", STAGES)]
    if rows.num_rows != len(lines) or any(set(rows[n].unique().to_pylist()) - {None, *allowed} for n, allowed in names):
        _explain(files)
    return rows


def _row(file: Lines, number: int, line: bytes) -> dict:
    record = check_event(line, f"{file.where} line {number}")
    value = record.pop("value", None)
    typed = {"value_int": value if type(value) is int else None, "value_text": value if type(value) is str else None}
    return {"attempt_key": file.attempt_key, "line": number, **record, **typed}


def _explain(files: list[Lines], error: str = "") -> None:
    """Raise the RecordError that names the first bad line."""
    for file in files:
        lines = whole_lines(file.data, file.where, may_be_torn=file.may_be_torn).split(b"\n")[:-1]
        for number, line in enumerate(lines, start=1):
            check_event(line, f"{file.where} line {number}")
    raise RecordError(files[0].where, found=error or "lines that do not parse", expected="one JSON object a line")
