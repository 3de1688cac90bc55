"""memory.csv of many attempts at once, into one Arrow table.

The header is compared byte for byte. Without its digits every row is ',,,': one comparison proves that all rows of a
file have four fields of digits only, so negative, fractional, quoted and missing fields cannot pass. Only a file that
is known to be bad is read line by line, to say where.
"""

import re
from dataclasses import dataclass
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from ..schema.records import MEMORY_CSV_HEADER
from .documents import RecordError, whole_lines
from .tables import SCHEMAS, run_lengths

HEADER = MEMORY_CSV_HEADER.encode() + b"\n"
BLOCK_BYTES = 1 << 23  # a usual batch is one chunk
_DIGITS = b"0123456789"
_SHAPE = b",,,\n"  # of a row without its digits
_ROW = re.compile(rb"[0-9]+,[0-9]+,[0-9]+,[0-9]*")
_SCHEMA = SCHEMAS["raw_memory"]
_TYPES = {name: pa.int64() for name in MEMORY_CSV_HEADER.split(",")}


@dataclass(frozen=True, slots=True)
class Lines:
    """One line-wise file of an attempt. `where` names archive and member."""

    attempt_key: int
    where: str
    data: bytes
    may_be_torn: bool


def parse_samples(files: list[Lines]) -> pa.Table:
    """Rows of raw_memory; `sample` counts the rows of each file from 0. Raises EvidenceError for malformed files."""
    bodies, counts = [], []
    for file in files:
        data = whole_lines(file.data, file.where, may_be_torn=file.may_be_torn)
        counts.append(_count(data, file))
        bodies.append(memoryview(data)[len(HEADER) :])
    joined = b"".join(bodies)
    if not joined:
        return _SCHEMA.empty_table()
    try:
        rows = pa.csv.read_csv(
            pa.BufferReader(joined),
            read_options=pa.csv.ReadOptions(column_names=list(_TYPES), use_threads=False, block_size=BLOCK_BYTES),
            parse_options=pa.csv.ParseOptions(quote_char=False, ignore_empty_lines=False),
            convert_options=pa.csv.ConvertOptions(column_types=_TYPES),
        )
    except pa.ArrowInvalid as error:
        _explain(files, str(error))
    if any(rows.column(name).null_count for name in ("t_ns", "device_index", "device_used_bytes")):
        _explain(files)
    rows = rows.combine_chunks()
    keys = run_lengths([file.attempt_key for file in files], counts)
    _check_clock(files, counts, keys, rows["t_ns"].chunk(0))
    begins = run_lengths(list(accumulate([0, *counts[:-1]])), counts)
    numbers = pc.subtract(pc.cumulative_sum(run_lengths([1], [len(keys)])), pc.add(begins, 1))
    return pa.Table.from_arrays([keys, numbers, *rows.columns], schema=_SCHEMA)


def _check_clock(files: list[Lines], counts: list[int], keys: pa.Array, times: pa.Array) -> None:
    """Times of one file never run backwards."""
    last = len(times) - 1
    earlier, later = _neighbours(times, last)
    back = pc.and_(pc.less(later, earlier), pc.equal(*_neighbours(keys, last)))
    at = pc.index(back, True).as_py()
    if at < 0:
        return
    for file, count in zip(files, counts, strict=True):
        if at < count:
            raise RecordError(
                f"{file.where} line {at + 3}",  # the header is line 1, and the row after the pair's first is meant
                found="a clock that runs backwards",
                expected="t_ns at or after the line before",
            )
        at -= count


def _neighbours(values: pa.Array, last: int) -> tuple[pa.Array, pa.Array]:
    """All values but the last, all but the first."""
    return values.slice(0, last), values.slice(1, last)


def _count(data: bytes, file: Lines) -> int:
    """Rows of a file whose bytes are the header and rows of four fields of digits; raises EvidenceError for others."""
    if not data and file.may_be_torn:
        return 0
    shape = data.translate(None, _DIGITS)  # the header has none
    count = (len(shape) - len(HEADER)) // len(_SHAPE)
    if not (data.startswith(HEADER) and shape == HEADER + _SHAPE * count):
        _explain([file])
    return count


def _explain(files: list[Lines], error: str = "") -> None:
    """Raise the RecordError that names the first bad row."""
    for file in files:
        data = whole_lines(file.data, file.where, may_be_torn=file.may_be_torn)
        if not data and file.may_be_torn:
            continue
        header, *rows = data.split(b"\n")[:-1] or [b""]
        if not data.startswith(HEADER):
            raise RecordError(
                f"{file.where} line 1", found=repr(header[:200]), expected=f"the header {MEMORY_CSV_HEADER}"
            )
        for number, row in enumerate(rows, start=2):
            fits = _ROW.fullmatch(row) and all(int(v) < 2**63 for v in row.split(b",") if v)
            if not fits:
                raise RecordError(
                    f"{file.where} line {number}",
                    found=repr(row[:200]),
                    expected=f"{MEMORY_CSV_HEADER} as digits that fit 64 bits; only the last may be empty",
                )
    raise RecordError(files[0].where, found=error or "rows that do not parse", expected=MEMORY_CSV_HEADER)
