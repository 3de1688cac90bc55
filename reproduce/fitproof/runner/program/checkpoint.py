"""Transactional checkpoints: folders that are either whole, with a digest for every file, or never read.

    <root>/step-00000004/{manifest.json, and the files it lists}

A checkpoint is written aside in `<root>/step-00000004.partial`: every file synced, the manifest last, then the folder
synced and renamed, and the rename synced. A kill or a power cut at any moment leaves the checkpoints before it as they
were. Removing goes the other way: renamed aside first, so that a half-removed folder never bears a checkpoint's name.
"""

import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from ..files import PARTIAL_SUFFIX, sync_folder

KEPT = 2  # newest checkpoints that stay: one, and the one before in case the disk damages it
MANIFEST = "manifest.json"
_NAME = re.compile(r"step-(\d{8})")
_CHUNK_BYTES = 1 << 22


class NewFile:
    """A file being written that counts and hashes what passes through."""

    def __init__(self, file: BinaryIO):
        self._file, self.digest, self.bytes = file, hashlib.sha256(), 0

    def write(self, data: bytes | memoryview) -> None:
        self._file.write(data)
        self.digest.update(data)
        self.bytes += len(data)


def write_file(path: Path, write: Callable[[NewFile], None]) -> dict[str, object]:
    """Write and sync one file; its entry in the manifest."""
    with path.open("wb") as file:
        new = NewFile(file)
        write(new)
        file.flush()
        os.fsync(file.fileno())
    return {"sha256": new.digest.hexdigest(), "bytes": new.bytes}


def save(root: Path, step: int, files: dict[str, Callable[[NewFile], None]]) -> int:
    """Write the checkpoint of `step` from functions that write one file each, and drop all but the newest KEPT.

    Returns the bytes of its files. An OSError (a full disk) propagates; the checkpoints before stay.
    """
    root.mkdir(parents=True, exist_ok=True)
    target = root / f"step-{step:08d}"
    discard(target)
    partial = target.with_name(target.name + PARTIAL_SUFFIX)
    partial.mkdir()
    entries = {name: write_file(partial / name, write) for name, write in files.items()}
    manifest = json.dumps({"step": step, "files": entries}, indent=1, sort_keys=True) + "\n"
    write_file(partial / MANIFEST, lambda file: file.write(manifest.encode()))
    sync_folder(partial)
    partial.rename(target)
    sync_folder(root)
    for old in _folders(root)[KEPT:]:
        discard(old)
    return sum(entry["bytes"] for entry in entries.values())


def latest(root: Path) -> Path | None:
    """The newest whole checkpoint, or None. What is damaged or was never finished is removed, and said on stderr."""
    for unfinished in root.glob(f"step-*{PARTIAL_SUFFIX}"):
        shutil.rmtree(unfinished)
    for folder in _folders(root):
        fault = fault_of(folder)
        if fault is None:
            return folder
        print(f"checkpoint {folder.name} is ignored: {fault}", file=sys.stderr)
        discard(folder)
    return None


def fault_of(folder: Path) -> str | None:
    """Why the folder is no whole checkpoint, or None. Reads every byte."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        listed = {name: (entry["sha256"], entry["bytes"]) for name, entry in manifest["files"].items()}
        if manifest["step"] != step_of(folder):
            return f"its manifest is of step {manifest['step']}"
        present = {path.name for path in folder.iterdir()} - {MANIFEST}
        if present != set(listed):
            return f"its files are not the manifest's: {', '.join(sorted(present ^ set(listed)))}"
        wrong = [name for name, entry in listed.items() if _digest(folder / name) != entry]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"{type(error).__name__}: {error.strerror if isinstance(error, OSError) else error}"
    return f"wrong bytes in {', '.join(wrong)}" if wrong else None


def step_of(folder: Path) -> int:
    return int(_NAME.fullmatch(folder.name)[1])


def discard(folder: Path) -> None:
    """Remove a checkpoint, and what was left of an unfinished one of that step."""
    partial = folder.with_name(folder.name + PARTIAL_SUFFIX)
    if partial.exists():
        shutil.rmtree(partial)
    if folder.exists():
        folder.rename(partial)
        shutil.rmtree(partial)


def _folders(root: Path) -> list[Path]:
    """Folders that bear a checkpoint's name, newest first."""
    if not root.is_dir():
        return []
    return sorted((path for path in root.iterdir() if _NAME.fullmatch(path.name)), reverse=True)


def _digest(path: Path) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return digest.hexdigest(), size
