"""The release folder that a verb or a loader works on: what --root (root=) says, else the nearest one above."""

from pathlib import Path

from .errors import UsageError
from .evidence.root import RELEASE, find_root


def release_root(root: str | Path | None = None) -> Path:
    """The folder, absolute. A given `root` need not hold release.json yet: a first build makes it.

    Raises UsageError when `root` is no folder, or when neither the current directory nor one above holds release.json.
    """
    if root is None:
        return find_root()
    path = Path(root).resolve()
    if not path.is_dir():
        raise UsageError(f"root {root}", found="no such folder", expected=f"the folder that holds {RELEASE}")
    return path
