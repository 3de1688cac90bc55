"""The digest that says which code made a plan, a trial or a release."""

import hashlib
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
_SUFFIXES = {".py", ".sql", ".json"}


def code_digest(package: Path = PACKAGE) -> str:
    """SHA-256 over the package's files: for each, sorted by path, its POSIX path, its length and its bytes."""
    digest = hashlib.sha256()
    files = (p for p in package.rglob("*") if p.suffix in _SUFFIXES and "__pycache__" not in p.parts)
    for path in sorted(files, key=lambda p: p.relative_to(package).as_posix()):
        data = path.read_bytes().replace(b"\r\n", b"\n")  # a checkout with other line ends is the same code
        digest.update(f"{path.relative_to(package).as_posix()}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()
