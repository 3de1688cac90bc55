"""The peer of the benchmark is a fair one: plain pandas gives the same values as the pipeline, view by view."""

from pathlib import Path

import pandas as pd
import pytest
from fitproof.evidence.pack import pack
from fitproof.schema.views import VIEWS

from benchmarks import synthetic
from benchmarks.pandas_reduction import finish, reduce_archives
from benchmarks.pandas_reduction import reduce_to as pandas_to
from benchmarks.pipeline import reduce_to

UNFILLED = {"predictions", "prediction_errors", "opd_workloads"}  # by synthetic panels
COMPARED = [name for name in VIEWS if name not in UNFILLED]


@pytest.fixture(scope="module")
def archives(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("archives")
    for number in range(2):
        runs = tmp_path_factory.mktemp("runs")
        synthetic.write_panel(runs, number, attempts=30, samples=120)
        pack([runs], folder / f"2026-01-01_synthetic_{number}.tar.zst", level=3)
    return sorted(folder.glob("*.tar.zst"))


@pytest.fixture(scope="module")
def pipeline(archives, tmp_path_factory) -> dict[str, pd.DataFrame]:
    root = tmp_path_factory.mktemp("views")
    assert reduce_to(archives, root) == len(VIEWS)
    return {name: _read(root / "views" / name) for name in COMPARED}


@pytest.fixture(scope="module")
def peer(archives) -> dict[str, pd.DataFrame]:
    return reduce_archives(archives)


def _read(path: Path) -> pd.DataFrame:
    """One view: a file, or a folder with one per archive."""
    files = path if path.is_dir() else path.with_suffix(".parquet")
    return pd.read_parquet(files, dtype_backend="numpy_nullable")


@pytest.mark.parametrize("view", COMPARED)
def test_pandas_and_pipeline_give_equal_views(pipeline, peer, view):
    left, right = (finish(side[view], VIEWS[view]) for side in (pipeline, peer))
    assert len(left) > 0
    pd.testing.assert_frame_equal(left, right, check_exact=True)


def test_all_views_are_compared(peer):
    assert set(peer) == set(COMPARED)


def test_the_peer_writes_what_it_returns(archives, peer, tmp_path):
    assert pandas_to(archives, tmp_path) == len(COMPARED)
    for name, view in peer.items():
        assert len(_read(tmp_path / name)) == len(view), name
    assert len(list((tmp_path / "memory_samples").iterdir())) == len(archives)
