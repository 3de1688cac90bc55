"""The bound really reads everything: members, rows, and each part takes its share."""

import io
import tarfile
from pathlib import Path

import pytest
import zstandard

from benchmarks import synthetic
from benchmarks.bound import LAYOUTS, measure_bound


@pytest.fixture(scope="module")
def archive(tmp_path_factory) -> Path:
    """A plain tar.zst of one small panel; the bound takes members as they come."""
    root = tmp_path_factory.mktemp("bound")
    panel = synthetic.write_panel(root / "runs", attempts=6, samples=20)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path in sorted(p for p in panel.rglob("*") if p.is_file()):
            tar.add(path, path.relative_to(root / "runs").as_posix())
    target = root / "small.tar.zst"
    target.write_bytes(zstandard.ZstdCompressor(level=3).compress(buffer.getvalue()))
    return target


@pytest.mark.parametrize("layout", LAYOUTS)
def test_bound_reads_every_member_and_row(archive, layout):
    bound = measure_bound([archive, archive], layout)
    # 6 attempts of 7 files, one without its result, plan and ledger; 6 x 20 samples, 6 trials and environments, ...
    assert bound.members == 2 * (6 * 7 - 1 + 2)
    events = 2 * sum(1 for name, line in _lines(archive) if name.endswith("events.jsonl"))
    ledger = 2 * sum(1 for name, line in _lines(archive) if name.endswith("ledger.jsonl"))
    assert bound.rows == 2 * (6 * 20 + 6 + 6 + 5 + 1) + events + ledger


def test_totals_are_the_sum_of_the_parts(archive):
    bound = measure_bound([archive], "joined")
    assert bound.seconds == pytest.approx(sum(clock.wall for clock in bound.parts.values()))
    assert len(bound.parts) == 4
    assert all(clock.wall > 0 for clock in bound.parts.values())


def _lines(archive: Path):
    plain = zstandard.ZstdDecompressor().decompress(archive.read_bytes())
    with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
        for info in tar:
            for line in tar.extractfile(info).read().splitlines():
                yield info.name, line
