"""Temporary folders that a killed process does not leave for ever, and a lock on a folder.

Both are an flock on the folder itself, which the kernel drops when its process ends, however it ends. No lock file is
left anywhere.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import UsageError

PREFIX, SUFFIX = "fitproof-", ".tmp"


@contextmanager
def scratch_folder(parent: Path | None = None) -> Iterator[Path]:
    """A new folder in `parent` (default: the system's temporary folder), removed at the end.

    First removes the folders of this kind there that no living process holds.
    """
    parent = Path(parent or tempfile.gettempdir())
    for path in parent.glob(f"{PREFIX}*{SUFFIX}"):
        _remove_abandoned(path)
    folder, held = _make(parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


@contextmanager
def alone_in(folder: Path, what: str) -> Iterator[None]:
    """Hold `folder` while inside. Raises UsageError where another process holds it; `what` names what both do."""
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not _try_lock(held):
            raise UsageError(f"{folder}", found=f"another {what} at work in it", expected=f"one {what} at a time",
                             hint="wait for it to end, then try again")  # fmt: skip
        yield
    finally:
        os.close(held)


def _make(parent: Path) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, suffix=SUFFIX, dir=parent))
        try:
            held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # another process took it for abandoned before it was held
        fcntl.flock(held, fcntl.LOCK_EX)
        if folder.exists():
            return folder, held
        os.close(held)


def _remove_abandoned(path: Path) -> None:
    try:
        held = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return  # gone, another user's, or no folder
    try:
        if _try_lock(held):
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(held)


def _try_lock(held: int) -> bool:
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
