"""A packer that is killed, or finds no room, leaves nothing under the archive's name."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from evidence_craft import read_all
from evidence_runs import SLOTS, tree, write_attempt
from fitproof.errors import EnvironmentLacks, EvidenceError
from fitproof.evidence import pack as pack_module
from fitproof.evidence.pack import pack

NAME = "2026-12-01_cpu_test.tar.zst"
TEMPORARY = f".{NAME}.tmp"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    write_attempt(folder, SLOTS[0], 0)
    return folder


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out" / NAME


def packer(run: Path, out: Path, before: str = "") -> list[str]:
    """Command of a process that packs, after some statements."""
    imports = "import os, resource, signal, sys\nfrom pathlib import Path\nfrom fitproof.evidence.pack import pack\n"
    code = f"{imports}{before}\npack([Path(sys.argv[1])], Path(sys.argv[2]))"
    return [sys.executable, "-c", code, str(run), str(out)]


def test_kill_in_the_middle_of_writing(run: Path, out: Path) -> None:
    (run / "other").mkdir()
    (run / "other" / "noise").write_bytes(os.urandom(24 << 20))  # seconds of work at level 19
    with subprocess.Popen(packer(run, out)) as process:
        while not ((out.parent / TEMPORARY).exists() and (out.parent / TEMPORARY).stat().st_size > 1 << 16):
            assert process.poll() is None, "the packer ended before it could be killed"
            time.sleep(0.001)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert os.listdir(out.parent) == [TEMPORARY]
    (run / "other" / "noise").write_bytes(b"short")
    pack([run], out)  # uses what was left
    assert sorted(os.listdir(out.parent)) == [NAME, NAME + ".sha256"]
    assert read_all(out) == tree(run)


@pytest.mark.parametrize(
    ("step", "left"),
    [("fsync", [TEMPORARY]), ("replace", [TEMPORARY])],
)
def test_kill_just_before_the_archive_gets_its_name(run: Path, out: Path, step: str, left: list[str]) -> None:
    before = f"os.{step} = lambda *a: os.kill(os.getpid(), signal.SIGKILL)"
    assert subprocess.run(packer(run, out, before)).returncode == -signal.SIGKILL
    assert os.listdir(out.parent) == left
    pack([run], out)
    assert read_all(out) == tree(run)


def test_kill_between_archive_and_sidecar(run: Path, out: Path) -> None:
    before = (
        "replace = os.replace\n"
        "os.replace = lambda a, b: (replace(a, b), os.kill(os.getpid(), signal.SIGKILL))"
    )  # fmt: skip
    assert subprocess.run(packer(run, out, before)).returncode == -signal.SIGKILL
    assert os.listdir(out.parent) == [NAME]  # whole, and the next call adds the sidecar
    packed = pack([run], out)
    assert read_all(out, expected_sha256=packed.sha256) == tree(run)
    assert sorted(os.listdir(out.parent)) == [NAME, NAME + ".sha256"]


def test_no_room_for_the_archive(run: Path, out: Path) -> None:
    (run / "other").mkdir()
    (run / "other" / "noise").write_bytes(os.urandom(1 << 18))
    before = "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))"
    done = subprocess.run(packer(run, out, before), capture_output=True, text=True)
    assert done.returncode == 1
    *_, error, found, _ = done.stderr.splitlines()
    assert error.startswith("fitproof.errors.EnvironmentLacks")
    assert "File too large" in found
    assert os.listdir(out.parent) == []


def test_no_room_at_the_last_moment(run: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pack_module.os, "fsync", full)
    with pytest.raises(EnvironmentLacks, match="No space left on device") as caught:
        pack([run], out)
    assert caught.value.exit_code == 3
    assert os.listdir(out.parent) == []


def test_two_packers_of_one_archive(run: Path, out: Path) -> None:
    with open(out.parent / TEMPORARY, "w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(EvidenceError, match="another process"):
            pack([run], out)
    pack([run], out)


def test_a_temporary_name_that_is_a_link_is_not_followed(run: Path, out: Path, tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (out.parent / TEMPORARY).symlink_to(tmp_path / "victim")
    with pytest.raises(EnvironmentLacks, match="cannot be written"):
        pack([run], out)
    assert (tmp_path / "victim").read_text() == "precious"
