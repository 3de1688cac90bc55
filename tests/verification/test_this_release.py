"""The published release itself, by the second path: digests, checks, row counts, headline numbers."""

from pathlib import Path

import pytest

from verification.__main__ import main

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not (ROOT / "release.json").exists(), reason="this checkout holds no release")
@pytest.mark.parametrize("verb", ["digests", "checks", "counts", "headline"])
def test_the_release_passes(verb, capsys):
    code = main(["--root", str(ROOT), verb])
    assert code == 0, capsys.readouterr().out
