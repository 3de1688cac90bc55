"""One .gitattributes, two readers: git sends nothing through LFS, the Hub gets the lines that do."""

from pathlib import Path

from fitproof.hub.attributes import hub_attributes

ROOT = Path(__file__).parents[2]


def test_a_clone_holds_real_bytes_and_the_hub_routes_large_files():
    own = (ROOT / ".gitattributes").read_text()
    assert not [line for line in own.splitlines() if "filter=lfs" in line and not line.startswith("#")]
    published = [line for line in hub_attributes(ROOT).splitlines() if not line.startswith("#")]
    assert "releases/**/*.tar.zst filter=lfs diff=lfs merge=lfs -text" in published
    assert "views/**/*.parquet filter=lfs diff=lfs merge=lfs -text" in published
