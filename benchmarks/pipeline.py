"""The pipeline as the benchmark runs it: verified archives to view files, with its own defaults."""

from pathlib import Path

from fitproof.evidence.files import read_sidecar
from fitproof.reduce.ingest import ArchiveFile
from fitproof.reduce.reduction import reduce_archives


def reduce_to(archives: list[Path], out: Path) -> int:
    """Write the views of `archives` below `out`; returns their number."""
    return len(reduce_archives([ArchiveFile(path=p, sha256=read_sidecar(p)) for p in archives], out))
