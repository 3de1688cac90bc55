"""The bench runs end to end on a tiny scale and prints what it promises; no figure is judged."""

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "benchmarks" / "bench_reduction.py"
TINY = ["--scales", "1", "2", "--attempts", "6", "--samples", "20", "--repeats", "1"]


def _run(*arguments: str) -> str:
    done = subprocess.run([sys.executable, str(BENCH), *TINY, *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_json_has_every_figure():
    rows = json.loads(_run("--json", "--pandas-up-to", "1"))
    assert [row["scale"] for row in rows] == [1, 2]
    assert [sorted(row["rivals"]) for row in rows] == [
        ["bound-joined", "bound-members", "pandas"],
        ["bound-joined", "bound-members"],
    ]
    for row in rows:
        assert row["raw_rows"] > 6 * 20 * row["scale"]
        assert row["peak_rss_bytes"] > 1 << 24
        for rival in row["rivals"].values():
            assert rival["ratio"] == row["seconds"] / rival["seconds"]
            assert rival["cpu_ratio"] == row["cpu_seconds"] / rival["cpu_seconds"]


def test_text_names_each_rival_and_the_growth():
    out = _run("--one-archive", "--pandas-up-to", "0")
    for words in ("x1: ", "x2: ", "bound-joined", "bound-members", "seconds per attempt, against x1: "):
        assert words in out
    assert "pandas" not in out
