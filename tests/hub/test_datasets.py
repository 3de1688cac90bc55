"""`datasets.load_dataset` on the card: every declared view, plain and streaming, offline, with its declared types.

Runs on a synthetic release and, where this clone holds one, on the published views.
"""

import logging
from pathlib import Path

import pytest
import yaml
from fitproof.evidence.pack import pack
from fitproof.hub.card import check_card, write_card
from fitproof.reduce.ingest import ArchiveFile
from fitproof.reduce.reduction import reduce_archives
from fitproof.schema.view import FEATURE_DTYPES

from benchmarks import synthetic

PUBLISHED = Path(__file__).parents[2]
DTYPES = set(FEATURE_DTYPES.values())


@pytest.fixture
def datasets(tmp_path, monkeypatch):
    """The library, offline and with its caches in tmp. What it logs as a warning fails the test."""
    for name in (
        "HF_HUB_OFFLINE",
        "HF_DATASETS_OFFLINE",
        "HF_HUB_DISABLE_TELEMETRY",
        "HF_DATASETS_DISABLE_PROGRESS_BARS",
    ):
        monkeypatch.setenv(name, "1")
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    warnings = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: warnings.append(record.getMessage())
    logging.getLogger("datasets").addHandler(handler)
    yield datasets
    logging.getLogger("datasets").removeHandler(handler)
    assert warnings == []


def declared(root: Path) -> dict[str, dict]:
    """Config name -> {split, features, rows} as the card declares them."""
    meta = yaml.safe_load((root / "README.md").read_text(encoding="utf-8").split("---\n")[1])
    splits = {c["config_name"]: c["data_files"][0]["split"] for c in meta.get("configs", [])}
    return {
        info["config_name"]: {
            "split": splits[info["config_name"]],
            "rows": info["splits"][0]["num_examples"],
            "features": {f["name"]: f["dtype"] for f in info["features"]},
        }
        for info in meta.get("dataset_info", [])
    }


def load_all(datasets, root: Path, cache: Path) -> int:
    """Load every declared view both ways and compare with the card; returns how many there were."""
    configs = declared(root)
    for name, said in configs.items():
        plain = datasets.load_dataset(str(root.absolute()), name, cache_dir=str(cache))
        assert list(plain) == [said["split"]], name
        assert plain[said["split"]].num_rows == said["rows"], name
        stream = datasets.load_dataset(str(root.absolute()), name, split=said["split"], streaming=True)
        for features in (plain[said["split"]].features, stream.features):
            assert {k: v.dtype for k, v in features.items()} == said["features"], name
            assert set(said["features"].values()) <= DTYPES
        first = next(iter(stream))
        assert first == plain[said["split"]][0], name
    return len(configs)


def test_every_view_of_a_synthetic_release_loads(datasets, release, views, tmp_path):
    write_card(release, views)
    assert load_all(datasets, release, tmp_path / "cache") == 5


def test_a_column_of_nulls_keeps_its_type(datasets, release, views, tmp_path):
    write_card(release, views)
    rows = datasets.load_dataset(str(release), "configurations", split="measured", cache_dir=str(tmp_path / "cache"))
    assert set(rows["ended_at"]) == {None}
    assert rows.features["ended_at"].dtype == "timestamp[us]"
    assert rows.features["kv_gap_seconds"].dtype == "float64"
    assert rows.features["is_odd"].dtype == "bool"
    assert rows.features["teacher_id"].dtype == "string"
    assert rows.features["critic_micro_batch"].dtype == "int32"


def test_the_default_view_needs_no_name(datasets, release, views, tmp_path):
    write_card(release, views)
    rows = datasets.load_dataset(str(release), split="measured", cache_dir=str(tmp_path / "cache"))
    assert rows.column_names[0] == "configuration_id"


def test_every_view_of_the_schema_loads(datasets, tmp_path):
    """The real views, reduced from a synthetic archive."""
    root, runs = tmp_path / "release", tmp_path / "runs"
    synthetic.write_panel(runs, attempts=12, samples=40)
    archive = root / "releases" / "2026-12-01_synthetic_panel.tar.zst"
    archive.parent.mkdir(parents=True)
    packed = pack([runs], archive, level=3)
    views = reduce_archives([ArchiveFile(path=archive, sha256=packed.sha256)], root)
    write_card(root)
    assert load_all(datasets, root, tmp_path / "cache") == sum(view.rows > 0 for view in views) >= 8


@pytest.mark.skipif(not (PUBLISHED / "release.json").is_file(), reason="this clone holds no release")
def test_every_published_view_loads(datasets, tmp_path):
    assert check_card(PUBLISHED) == []
    assert load_all(datasets, PUBLISHED, tmp_path / "cache") >= 1
