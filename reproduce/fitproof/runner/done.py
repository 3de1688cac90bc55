"""Ledgers of archives that hold earlier parts of a panel: what they recorded is not measured again."""

from collections.abc import Iterable
from pathlib import Path

from ..errors import UsageError
from .ledger import parse_ledger


def archived_ledger(archives: Iterable[Path], panel: str) -> list[dict]:
    """The ledger lines of `panel` in all archives. Each archive's digest is checked before it is opened, and it is read
    to its end. Raises UsageError (no such file) and EvidenceError (not an intact archive).
    """
    records = []
    for archive in archives:
        # Only this option needs the decompressor.
        from ..evidence.files import read_sidecar
        from ..evidence.reader import read_members

        if not archive.is_file():
            raise UsageError(
                f"archive {archive}",
                found="no such file",
                expected="an archive of earlier attempts",
                hint="--done releases/NAME.tar.zst",
            )
        for member in read_members(archive, expected_sha256=read_sidecar(archive)):
            if member.name == f"{panel}/ledger.jsonl":
                records += parse_ledger(member.data, where=f"{archive.name}:{member.name}")
    return records
