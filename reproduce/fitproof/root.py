"""The release folder that a verb or a loader works on: what --root (root=) says, else the nearest one above."""

from pathlib import Path

from .errors import UsageError
from .evidence.manifest import FOLDERS, MANIFEST
from .evidence.root import RELEASE, find_root


def release_root(root: str | Path | None = None) -> Path:
    """The folder, absolute. A given `root` need not hold release.json yet: a first build makes it.

    Raises UsageError when `root` is no folder or has nothing of a release in it, or when neither the current directory
    nor one above holds release.json.
    """
    if root is None:
        return find_root()
    path = Path(root).resolve()
    if not path.is_dir():
        raise UsageError(
            f"root {root}", found="no such folder", expected=f"the folder that holds {RELEASE}", hint="--root DIR"
        )
    parts = (RELEASE, MANIFEST, *FOLDERS)
    if not any(
        (path / name).exists() for name in parts
    ):  # each alone is a damaged release, and for the checks to judge
        raise UsageError(
            f"root {root}",
            found=f"none of {', '.join(parts)} in it",
            expected="a clone of the dataset",
            hint="--root DIR  # or nothing, inside the clone",
        )
    return path
