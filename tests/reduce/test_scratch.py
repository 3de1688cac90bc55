"""What a killed process leaves is removed by the next; what a living one holds is left alone; one build at a time."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fitproof.errors import EvidenceError, UsageError
from fitproof.evidence.manifest import FIXED
from fitproof.reduce.build import build
from fitproof.reduce.scratch import alone_in, scratch_folder

HOLD = """
import sys, time
from pathlib import Path
from fitproof.reduce.scratch import scratch_folder
with scratch_folder(Path(sys.argv[1])) as folder:
    (folder / "file").write_text("content")
    print(folder, flush=True)
    time.sleep(600)
"""


def test_a_folder_is_empty_held_and_removed(tmp_path):
    with scratch_folder(tmp_path) as folder:
        assert list(folder.iterdir()) == []
        with scratch_folder(tmp_path) as other:
            assert folder.exists()
            assert other != folder
        assert not other.exists()
    assert list(tmp_path.iterdir()) == []


def test_the_next_removes_what_a_killed_process_left(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE, text=True)
    with child:
        left = Path(child.stdout.readline().strip())
        with scratch_folder(tmp_path):
            assert (left / "file").exists()
        child.send_signal(signal.SIGKILL)
    assert (left / "file").exists()
    with scratch_folder(tmp_path):
        assert not left.exists()


def test_files_and_links_of_such_names_are_left_alone(tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    (tmp_path / "fitproof-link.tmp").symlink_to(kept)
    (tmp_path / "fitproof-file.tmp").write_text("a file")
    with scratch_folder(tmp_path):
        assert {p.name for p in tmp_path.iterdir()} >= {"kept", "fitproof-link.tmp", "fitproof-file.tmp"}


def test_one_build_at_a_time(tmp_path):
    (tmp_path / "releases").mkdir()
    (tmp_path / "releases/2026-01-01_gpu_test.tar.zst").touch()
    for name in FIXED:
        (tmp_path / name).touch()
    with alone_in(tmp_path, "build"), pytest.raises(UsageError, match="another build at work"):
        build(tmp_path)
    with pytest.raises(EvidenceError, match="sha256"):  # let in, it looks for the archive's sidecar
        build(tmp_path)
