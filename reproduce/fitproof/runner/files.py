"""Writing raw records: whole or not at all, and on the disk before the next step relies on them."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

from ..schema.records import CHECKPOINTS

PARTIAL_SUFFIX = ".partial"


def utc_now() -> str:
    """'2026-12-01T10:00:00.000000Z'."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def checkpoint_folder(attempt: Path) -> Path:
    """Where the trial of <run dir>/<panel>/<slot_id>/attempt-<n> keeps its checkpoints: one place for all attempts of
    a slot, outside of what is packed.
    """
    slot = attempt.resolve().parent
    return slot.parent.parent / CHECKPOINTS / slot.parent.name / slot.name


def sync_folder(folder: Path) -> None:
    """Make names created in, or renamed into, `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, record: object) -> None:
    """Write one JSON document, as `write_bytes` does."""
    write_bytes(path, (json.dumps(record, ensure_ascii=False, indent=1) + "\n").encode("utf-8"))


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file by atomic rename: a reader sees the whole of it or none."""
    partial = path.with_name(path.name + PARTIAL_SUFFIX)
    try:
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.rename(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
