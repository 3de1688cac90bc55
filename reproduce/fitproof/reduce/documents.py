"""Strict JSON documents of the raw record: no duplicate keys, no NaN, UTF-8, exactly the fields of the schema.

Most records have a shape (keys and value types, in order) that was seen and checked before; only new shapes are walked
field by field.
"""

import json
from collections.abc import Iterable
from datetime import datetime

from ..errors import EvidenceError
from ..schema.records import Field, problems

RECORD_HINT = (
    "tar --zstd -xOf releases/ARCHIVE MEMBER  # shows the record; take its attempt out of the run directory or measure "
    "it again, then pack"
)
_INT64 = 2**63
_known_shapes: dict[tuple, tuple[str, ...]] = {}  # shape -> names of its integers


class RecordError(EvidenceError):
    """A raw record is bad, and its archive holds it as it was packed."""

    def __init__(self, subject: str, *, found: str, expected: str, hint: str = RECORD_HINT):
        super().__init__(subject, found=found, expected=expected, hint=hint)


def strict_json(data: bytes, where: str) -> object:
    """One JSON value. Raises EvidenceError (subject `where`) for what RFC 8259 does not allow, and for key twins."""
    try:
        text = data.decode("utf-8")
        value = _DECODER.decode(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode("utf-8")  # half a surrogate pair is no text
        return value
    except (ValueError, RecursionError) as error:
        raise RecordError(where, found=str(error) or "nesting too deep", expected="one strict JSON value") from None


def _object(pairs: list[tuple[str, object]]) -> dict:
    made = dict(pairs)
    if len(made) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"key {next(n for n in names if names.count(n) > 1)!r} twice in one object")
    return made


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant)


def checked(record: object, spec: tuple[Field, ...], where: str) -> dict:
    """`record` if it is an object with exactly the fields of `spec`; raises EvidenceError that lists what is wrong."""
    shape = (id(spec), tuple(record), tuple(map(type, record.values()))) if type(record) is dict else None
    integers = _known_shapes.get(shape)
    if integers is not None and all(0 <= record[name] < _INT64 for name in integers):
        return record  # a known shape with other numbers is rare: then the full check below decides
    wrong = problems(record, spec, where)
    if wrong:
        found = "; ".join(text.removeprefix(f"{where}: ") for text in wrong)
        raise RecordError(where, found=found, expected="the fields of schema/records.py, and no others")
    _refuse_negative(record, where)
    _known_shapes[shape] = tuple(name for name, value in record.items() if type(value) is int)
    return record


def _refuse_negative(record: dict, where: str) -> None:
    for name, value in record.items():
        if type(value) is int and value < 0 and name not in ("exit_code", "value"):
            raise RecordError(where, found=f"{name} {value}", expected="a number that is not negative")


def one_of(record: dict, name: str, allowed: Iterable[object], where: str) -> None:
    if record[name] not in allowed:
        shown = ", ".join("null" if a is None else str(a) for a in allowed)
        raise RecordError(where, found=f"{name} {record[name]!r}", expected=f"one of: {shown}")


def utc_text(record: dict, name: str, where: str) -> None:
    """Check the field's form '2026-12-01T10:00:00.000000Z' and that there is such a moment."""
    text = record[name]
    try:
        if len(text) == 27 and text[10] == "T" and text[19] == "." and text[26] == "Z" and text.isascii():
            datetime.fromisoformat(text)
            return
    except ValueError:
        pass
    raise RecordError(where, found=f"{name} {text!r}", expected="UTC with microseconds: 2026-12-01T10:00:00.000000Z")


def whole_lines(data: bytes, where: str, *, may_be_torn: bool) -> bytes:
    """`data` up to its last line feed. A rest after it is dropped if the writer was killed, else an EvidenceError."""
    end = data.rfind(b"\n") + 1
    if end == len(data) or may_be_torn:
        return data[:end]
    line = data.count(b"\n") + 1
    raise RecordError(
        f"{where} line {line}", found=f"a last line without line feed: {data[end:][:80]!r}", expected="whole lines"
    )
