"""Both paths agree on the golden cases of the reduction: CPU, campaigns, retries, hidden processes, small cards."""

from pathlib import Path

import pytest
from fitproof.evidence.pack import pack

from verification import recompute
from verification.release import read_release
from verification.run_checks import run_checks

CASES = sorted(p.name for p in (Path(__file__).parents[1] / "reduce" / "cases").iterdir() if p.is_dir())


def test_there_are_cases():
    assert len(CASES) >= 9


@pytest.mark.parametrize("case", CASES)
def test_paths_agree_and_checks_are_silent(tmp_path, case, publish):
    (tmp_path / "releases").mkdir()
    folder = Path(__file__).parents[1] / "reduce" / "cases" / case / "archives"
    for number, runs in enumerate(sorted(folder.iterdir()), 1):
        pack([runs], tmp_path / "releases" / f"2026-01-0{number}_gpu_{case.replace('_', '-')}.tar.zst", level=3)
    publish(tmp_path)
    release = read_release(tmp_path)
    _, lines = recompute.compare(release)
    assert lines == []
    _, failures = run_checks(release)
    assert [f.render() for f in failures] == []
