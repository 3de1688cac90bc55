"""Where the release is: the nearest ancestor of the current directory that holds release.json, or what --root says."""

from pathlib import Path

from .errors import UsageError

MARKER = "release.json"


def find_root(root: str | Path | None = None, *, start: Path | None = None) -> Path:
    """The release folder, absolute. A given `root` is taken as it is, so that a first build can name an empty one.

    Raises UsageError when `root` is no folder, or when no ancestor of `start` (default: here) holds release.json.
    """
    if root is not None:
        path = Path(root).resolve()
        if not path.is_dir():
            raise UsageError(f"root {root}", found="no such folder", expected="the folder that holds release.json")
        return path
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / MARKER).is_file():
            return folder
    raise UsageError(
        "release folder",
        found=f"no {MARKER} in {here} or above it",
        expected=f"a clone of the dataset repository, which holds {MARKER}",
        hint="cd into the clone, or add --root PATH (in Python: root=PATH)",
    )
