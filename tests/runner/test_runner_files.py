"""Records are written whole or not at all."""

import pytest
from fitproof.runner import files
from fitproof.runner.files import write_json


def test_a_full_disk_leaves_neither_half_a_record_nor_a_changed_one(tmp_path, monkeypatch):
    write_json(tmp_path / "a.json", {"n": 1})
    before = (tmp_path / "a.json").read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    for name in ("a.json", "b.json"):
        with pytest.raises(OSError, match="No space left"):
            write_json(tmp_path / name, {"n": 2})
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    assert (tmp_path / "a.json").read_bytes() == before
