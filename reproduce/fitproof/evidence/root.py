"""Where the published tree is: the nearest folder that holds release.json."""

from pathlib import Path

from fitproof.errors import UsageError

RELEASE = "release.json"


def find_root(start: Path | None = None) -> Path:
    """`start` (default: the current directory) or its nearest ancestor with release.json. UsageError if none has it."""
    begin = (Path.cwd() if start is None else Path(start)).resolve()
    for folder in (begin, *begin.parents):
        if (folder / RELEASE).is_file():
            return folder
    raise UsageError(
        f"{begin}",
        found=f"no {RELEASE} here or above",
        expected="a clone of the dataset",
        hint="name it with --root",
    )
