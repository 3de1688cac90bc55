"""The external sampler: whole lines on a fixed grid, counts that agree, and an end with its supervisor."""

import subprocess
import sys
import time
from itertools import pairwise

import pytest
from fitproof.runner.companion import Companion, CompanionLost
from fitproof.runner.sampler import Sampler
from fitproof.runner.sampling import NO_SAMPLES, Sampling
from fitproof.runner.traces import sample_problems
from fitproof.schema.records import MEMORY_CSV_HEADER


def rows_of(path):
    header, *rows, last = path.read_text().split("\n")
    assert (header, last) == (MEMORY_CSV_HEADER, "")
    return [row.split(",") for row in rows]


def test_it_watches_a_process_from_before_its_start_to_after_its_end(tmp_path):
    sampling = Sampling("cpu", None, 2_000_000)
    try:
        for number in (1, 2):  # one sampler serves trial after trial
            path = tmp_path / f"{number}.csv"
            sampling.start(path)
            process = subprocess.Popen([sys.executable, "-c", "x = bytes(range(256)) * 80_000; input()"],
                                       stdin=subprocess.PIPE)  # fmt: skip
            sampling.watch(process.pid)
            time.sleep(0.4)
            process.communicate(b"\n")
            time.sleep(0.02)
            cadence = sampling.stop()
            rows = rows_of(path)
            assert sample_problems(path, cadence.samples) == []
            assert len(rows) == cadence.samples
            assert rows[0][2:] == rows[-1][2:] == ["0", ""]  # no process yet, and none any more
            used = [int(process_used) for _, _, _, process_used in rows if process_used]
            assert max(used) > 20_000_000
            gaps = [int(b[0]) - int(a[0]) for a, b in pairwise(rows)]
            assert max(gaps) == cadence.max_interval_ns
            assert sorted(gaps)[(len(gaps) - 1) // 2] == cadence.median_interval_ns
    finally:
        sampling.close()


def test_a_late_sample_keeps_the_grid_and_leaves_out_what_was_missed(tmp_path, monkeypatch):
    class Constant:
        device_index = 3

        def read(self, pid):
            return 100, pid

    now = [1_000]
    monkeypatch.setattr(time, "monotonic_ns", lambda: now[0])
    sampler = Sampler(Constant())
    path = tmp_path / "memory.csv"
    sampler.answer({"start": str(path), "interval_ns": 10})
    sampler.answer({"pid": 7})
    for moment in (1_005, 1_010, 1_012, 1_047, 1_049, 1_050):
        now[0] = moment
        sampler.idle()
    now[0] = 1_055
    reply = sampler.answer({"stop": True})
    assert [int(row[0]) for row in rows_of(path)] == [1_000, 1_010, 1_047, 1_050, 1_055]
    assert rows_of(path)[1] == ["1010", "3", "100", "7"]
    assert reply == {"samples": 5, "median_interval_ns": 5, "max_interval_ns": 37}
    assert sampler.idle() is None


def test_rows_reach_the_disk_while_it_runs_and_a_kill_leaves_whole_lines(tmp_path):
    sampler = Companion("fitproof.runner.sampler", "cpu")
    sampler.receive(30.0)
    path = tmp_path / "memory.csv"
    sampler.ask({"start": str(path), "interval_ns": 1_000_000})
    deadline = time.monotonic() + 20
    while path.stat().st_size < 5_000 and time.monotonic() < deadline:
        time.sleep(0.05)
    sampler._process.kill()
    assert len(rows_of(path)) > 100
    with pytest.raises(CompanionLost, match="signal 9"):
        sampler.ask({"stop": True})
    sampler.close()


def test_it_refuses_to_overwrite_and_says_why(tmp_path):
    sampling = Sampling("cpu", None, 1_000_000)
    path = tmp_path / "memory.csv"
    path.write_text("someone's evidence")
    with pytest.raises(CompanionLost, match="FileExistsError"):
        sampling.start(path)
    assert path.read_text() == "someone's evidence"
    sampling.start(tmp_path / "other.csv")  # with a new process
    assert sampling.stop().samples >= 2
    sampling.close()


def test_off_means_a_header_and_nulls(tmp_path):
    sampling = Sampling("cpu", None, None)
    sampling.start(tmp_path / "memory.csv")
    sampling.watch(1)
    assert sampling.stop() == NO_SAMPLES
    assert (tmp_path / "memory.csv").read_text() == MEMORY_CSV_HEADER + "\n"
    sampling.close()


@pytest.mark.parametrize(
    ("text", "samples", "message"),
    [
        ("", 0, "no header"),
        (MEMORY_CSV_HEADER + "\n", 0, "0 rows"),
        (MEMORY_CSV_HEADER + "\n1,0,5,\n2,0,5", 2, "torn last line"),
        (MEMORY_CSV_HEADER + "\n1,0,5,\n2,0,5,\n", 3, "2 rows, the sampler reported 3"),
        (MEMORY_CSV_HEADER + "\n2,0,5,\n1,0,5,\n", 2, "backwards"),
        (MEMORY_CSV_HEADER + "\nx,0,5,\n1,0,5,\n", 2, "invalid literal"),
    ],
)
def test_what_is_no_valid_measurement(tmp_path, text, samples, message):
    path = tmp_path / "memory.csv"
    path.write_text(text)
    assert any(message in problem for problem in sample_problems(path, samples))
    assert sample_problems(tmp_path / "none.csv", 2)
