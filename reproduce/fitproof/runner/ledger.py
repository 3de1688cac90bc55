"""The ledger: one line for every start and end of an attempt, appended and never rewritten.

It is the truth about what was tried. A line is written with one `write` and synced before the next step, so a kill
can tear at most the last line; a torn line has no newline, was never relied on, and is cut off at the next opening.
"""

import fcntl
import json
import os
from pathlib import Path

from ..errors import EvidenceError, UsageError
from ..schema.records import LEDGER, problems
from .files import sync_folder


class Ledger:
    """The open ledger of one panel directory, locked: a second supervisor on the same directory is refused."""

    def __init__(self, path: Path):
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise UsageError(
                f"run directory {path.parent}",
                found="another supervisor is measuring into it",
                expected="one supervisor per run directory",
                hint="wait for it to end, or choose another --out",
            ) from None
        sync_folder(path.parent)
        data = path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            os.ftruncate(self._descriptor, whole)
            os.fsync(self._descriptor)
        try:
            self.records = parse_ledger(data[:whole], where=str(path))
        except EvidenceError:
            os.close(self._descriptor)
            raise

    def append(self, record: dict) -> None:
        """Append one record and wait until it is on the disk."""
        wrong = problems(record, LEDGER, "ledger line")
        if wrong:
            raise ValueError("; ".join(wrong))
        line = (json.dumps(record, ensure_ascii=False) + "\n").encode("utf-8")
        if os.write(self._descriptor, line) != len(line):
            raise OSError(f"{self.path}: short write; is the disk full?")
        os.fsync(self._descriptor)
        self.records.append(record)

    def close(self) -> None:
        os.close(self._descriptor)  # also gives the lock back

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_ledger(path: Path) -> list[dict]:
    """Every whole line of a ledger; an unterminated last line is dropped. Missing file: no lines."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    return parse_ledger(data, where=str(path))


def parse_ledger(data: bytes, *, where: str) -> list[dict]:
    """Records of a ledger's bytes. Raises EvidenceError for a whole line that is no ledger record."""
    records = []
    for number, line in enumerate(data[: data.rfind(b"\n") + 1].splitlines(), start=1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise EvidenceError(f"{where} line {number}", found=str(error), expected="one JSON object a line") from None
        wrong = problems(record, LEDGER, f"{where} line {number}")
        if wrong:
            raise EvidenceError(f"{where} line {number}", found="; ".join(wrong), expected="a start or an end")
        records.append(record)
    return records
