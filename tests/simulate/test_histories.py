"""The allocator model against what a real device's allocator did, block by block."""

import gzip
import json
import os
from pathlib import Path

import pytest
from fitproof.errors import EvidenceError
from fitproof.simulate.histories import first_difference, main, placed_alike, read_history
from fitproof.simulate.placement import ASCENDING, DESCENDING, H200
from fitproof.simulate.replay import replay

DATA = Path(__file__).parent / "data"
COMMITTED = sorted(DATA.glob("*.jsonl.gz"))
# Whole histories are larger than what belongs in a repository; name their folder to have them checked too.
FOLDER = os.environ.get("FITPROOF_HISTORIES")
WHOLE = sorted(Path(FOLDER).glob("*.jsonl.gz")) if FOLDER else []
ALL = [*COMMITTED, *WHOLE]


def plain(paths):
    return [path for path in paths if not path.name.startswith("expandable")]


def test_recorded_histories_are_there():
    assert len(COMMITTED) == 3
    assert all(path.stat().st_size < 60_000 for path in COMMITTED)


@pytest.mark.skipif(not FOLDER, reason="FITPROOF_HISTORIES names no folder of whole histories")
def test_whole_histories_are_checked_too():
    assert WHOLE, f"no *.jsonl.gz in {FOLDER}"


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.name.split(".jsonl")[0])
def test_every_block_lies_where_the_device_put_it(path):
    history = read_history(path)
    assert first_difference(history) is None


@pytest.mark.parametrize("path", plain(ALL), ids=lambda path: path.name.split(".jsonl")[0])
def test_segments_come_in_the_recorded_order_and_the_peak_is_exact(path):
    history = read_history(path)
    result = replay(history.events(), placement=history.recorded())
    assert result.peak_reserved == history.reserved
    assert result.stages[-1].peak_segments == len(history.segments)


@pytest.mark.parametrize("placement", [DESCENDING, H200], ids=lambda placement: placement.name)
@pytest.mark.parametrize("path", plain(ALL), ids=lambda path: path.name.split(".jsonl")[0])
def test_descending_placements_reserve_what_the_device_did(path, placement):
    history = read_history(path)
    assert replay(history.events(), placement=placement).peak_reserved == history.reserved


def test_ascending_addresses_miss_what_the_device_reserved():
    history = read_history(DATA / "rollout.jsonl.gz")
    assert replay(history.events(), placement=ASCENDING).peak_reserved - history.reserved == 1120 * 2**20


def test_the_holes_of_the_card_explain_most_addresses():
    history = read_history(DATA / "full_update.jsonl.gz")
    same, steps = placed_alike(history, H200)
    assert same > 100
    assert steps > 0.9 * len(history.segments)
    assert placed_alike(history, ASCENDING) < (2, 0.3 * len(history.segments))


def test_a_history_with_something_else_in_it_is_refused(tmp_path):
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(["segment_free", 0, 1]).encode()))
    with pytest.raises(EvidenceError, match="segment_free"):
        read_history(path)


def test_a_difference_is_named(tmp_path, capsys):
    entries = [["segment_alloc", 2**30, 2**21], ["alloc", 2**30 + 512, 512]]
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, entries)).encode()))
    assert first_difference(read_history(path)) == ("entry 1: block of 512 bytes at 0x40000000, recorded at 0x40000200")
    assert main([str(path)]) == 1
    assert "entry 1" in capsys.readouterr().out
