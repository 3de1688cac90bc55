"""The .gitattributes that the Hub gets: the repository's own, with its "#hub " lines in force.

The Hub wants large and binary files in LFS; a plain clone of the repository must hold the real bytes. One file says
both: lines that start with "#hub " are comments to git and rules to the Hub.
"""

from pathlib import Path

PREFIX = "#hub "


def hub_attributes(root: Path) -> str:
    """Text of .gitattributes as published on the Hub."""
    lines = (root / ".gitattributes").read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line.removeprefix(PREFIX) for line in lines)
