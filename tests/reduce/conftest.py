"""What the reduction's tests share: run directories that a test may spoil, and archives of them."""

import sys
from pathlib import Path

import pytest
from fitproof.errors import EvidenceError
from fitproof.evidence.pack import pack
from fitproof.reduce.ingest import ArchiveFile
from fitproof.reduce.reduction import reduce_archives

sys.path.insert(0, str(Path(__file__).parent))  # raw_cases and golden stand beside the tests


@pytest.fixture
def pack_runs(tmp_path):
    """Folders of run directories -> archives, named by their order."""

    def run(*folders: Path) -> list[ArchiveFile]:
        archives = []
        for number, folder in enumerate(folders):
            packed = pack([folder], tmp_path / f"2026-01-0{number + 1}_gpu_test.tar.zst", level=1)
            archives.append(ArchiveFile(path=packed.path, sha256=packed.sha256))
        return archives

    return run


@pytest.fixture
def refusal(tmp_path, pack_runs):
    """Reduce bad run directories; returns the message, after checking that nothing was written."""

    def run(*folders: Path) -> str:
        archives = pack_runs(*folders)
        with pytest.raises(EvidenceError) as caught:
            reduce_archives(archives, tmp_path / "out")
        assert not (tmp_path / "out").exists()
        assert caught.value.hint
        return str(caught.value)

    return run
