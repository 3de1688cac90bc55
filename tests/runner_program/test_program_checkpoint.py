"""The folder of checkpoints: whole or not at all, whatever ends the writer and whatever happens to the bytes."""

import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from fitproof.runner.program import checkpoint
from fitproof.runner.program.tensor_file import read_tensors, write_tensors
from safetensors.torch import load_file


def save(root: Path, step: int) -> int:
    """Two files whose bytes say which step they are of."""
    write = {name: lambda file, n=name: file.write(f"{n} {step} ".encode() * 100) for name in ("a.bin", "b.bin")}
    return checkpoint.save(root, step, write)


def names(root: Path) -> list[str]:
    return sorted(p.name for p in root.iterdir())


def holds(folder: Path, step: int) -> bool:
    return all((folder / n).read_bytes() == f"{n} {step} ".encode() * 100 for n in ("a.bin", "b.bin"))


def test_the_newest_two_stay(tmp_path):
    assert checkpoint.latest(tmp_path / "none") is None
    sizes = {save(tmp_path, step) for step in (2, 4, 6)}
    assert sizes == {1600}
    assert names(tmp_path) == ["step-00000004", "step-00000006"]
    found = checkpoint.latest(tmp_path)
    assert checkpoint.step_of(found) == 6
    assert holds(found, 6)
    manifest = json.loads((found / "manifest.json").read_text())
    assert sorted(manifest["files"]) == ["a.bin", "b.bin"]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    "damage",
    [
        lambda f: cut(f / "b.bin"),
        lambda f: flip(f / "a.bin"),
        lambda f: (f / "a.bin").unlink(),
        lambda f: (f / "c.bin").write_bytes(b""),
        lambda f: (f / "manifest.json").unlink(),
        lambda f: cut(f / "manifest.json") or cut(f / "manifest.json"),
        lambda f: (f / "manifest.json").write_text("[]"),
        lambda f: (f / "manifest.json").write_text('{"step": 4, "files": {"a.bin": 3}}'),
        lambda f: shutil.copy(f.parent / "step-00000002" / "manifest.json", f / "manifest.json"),
    ],
)
def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path, capsys, damage):
    save(tmp_path, 2)
    save(tmp_path, 4)
    damage(tmp_path / "step-00000004")
    found = checkpoint.latest(tmp_path)
    assert checkpoint.step_of(found) == 2
    assert holds(found, 2)
    assert "step-00000004 is ignored" in capsys.readouterr().err
    assert names(tmp_path) == ["step-00000002"]  # the damaged one cannot outlive the steps that are made again
    save(tmp_path, 4)
    assert holds(checkpoint.latest(tmp_path), 4)


CALLS = ("os.fsync", "os.mkdir", "os.open", "os.rename", "os.unlink", "os.rmdir", "open")
"""Audit events: what a writer does to the file system. A process that dies before one of them has done the others."""


def die_before_call(root: Path, number: int) -> None:
    """In this process: save step 6, and end, as by SIGKILL, just before the `number`-th change of the file system."""
    left = [number]

    def hook(event: str, _: tuple) -> None:
        if event in CALLS:
            left[0] -= 1
            if left[0] == 0:
                os._exit(9)

    import sys

    real = os.fsync

    def fsync(descriptor: int) -> None:
        hook("os.fsync", ())  # no audit event of its own
        real(descriptor)

    os.fsync = fsync
    sys.addaudithook(hook)
    save(root, 6)
    os._exit(0)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_dying_at_any_call_leaves_the_last_checkpoint_or_the_new_one(tmp_path):
    outcomes = []
    for number in range(1, 200):
        root = tmp_path / str(number)
        save(root, 2)
        save(root, 4)
        pid = os.fork()
        if pid == 0:
            die_before_call(root, number)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        found = checkpoint.latest(root)
        step = checkpoint.step_of(found)
        assert step in (4, 6)
        assert holds(found, step)
        assert not [n for n in names(root) if n.endswith(".partial")]
        save(root, 8)
        assert checkpoint.step_of(checkpoint.latest(root)) == 8
        assert len(names(root)) == 2
        outcomes.append(step)
        if code == 0:
            break
    assert code == 0
    assert len(outcomes) > 12
    assert outcomes == sorted(outcomes)  # one call decides: before it the old one is the last, after it the new one
    assert {4, 6} == set(outcomes)


def test_a_full_disk_leaves_the_checkpoints_before(tmp_path):
    save(tmp_path, 2)

    def full(file):
        file.write(b"x")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        checkpoint.save(tmp_path, 4, {"a.bin": full})
    assert holds(checkpoint.latest(tmp_path), 2)


def test_tensor_files_are_what_the_library_reads(tmp_path):
    tensors = {
        "bytes": torch.arange(7, dtype=torch.uint8),
        "step": torch.tensor(3.0),
        "half": torch.randn(3, 5).bfloat16(),
        "turned": torch.randn(4, 6).t(),
        "wide": torch.randn(5, dtype=torch.float64),
        "mask": torch.tensor([True, False, True]),
        "none": torch.empty(0, 3),
    }
    for name in ("one", "two"):
        with (tmp_path / name).open("wb") as file:
            write_tensors(file, tensors)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    for found in (load_file(tmp_path / "one"), dict(read_tensors(tmp_path / "one"))):
        assert found.keys() == tensors.keys()
        for name, tensor in tensors.items():
            assert found[name].dtype == tensor.dtype
            assert torch.equal(found[name], tensor)
