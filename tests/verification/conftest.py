"""A published folder made by the real pipeline: synthetic runs with a CPU panel and bad luck, and a workload's."""

from collections.abc import Callable
from pathlib import Path

import pytest
from fitproof.code import code_digest
from fitproof.evidence.manifest import FIXED, manifest_text
from fitproof.evidence.pack import pack
from fitproof.evidence.release import Release, ViewEntry, ViewFile, archive_entry, dump_release
from fitproof.reduce.ingest import ArchiveFile
from fitproof.reduce.reduction import reduce_archives
from fitproof.schema.canonical import sha256_hex
from fitproof.schema.records import SCHEMA_VERSION
from fitproof.schema.views import VIEWS

from benchmarks import synthetic
from tests.reduce.raw_predictions import MIB, line, write
from verification.archives import sha256_file

WORKLOADS = Path(__file__).parents[1] / "reduce" / "cases" / "opd_workloads" / "archives"


def _publish(root: Path) -> None:
    """Views, release.json and MANIFEST.sha256 of the archives below root/releases."""
    archives = sorted((root / "releases").glob("*.tar.zst"))
    entries = tuple(archive_entry(path) for path in archives)
    inputs = [ArchiveFile(path=p, sha256=e.sha256) for p, e in zip(archives, entries, strict=True)]
    views = [
        ViewEntry(
            name=view.name,
            rows=view.rows,
            content_sha256=view.content_sha256,
            schema=VIEWS[view.name],
            files=tuple(_file(root, name) for name in view.files),
        )
        for view in reduce_archives(inputs, root)
    ]
    views = tuple(sorted(views, key=lambda view: view.name))
    release = Release(schema_version=SCHEMA_VERSION, tag="0.0.0", parent_commit=None, code_digest=code_digest(),
                      writer="test", tools={}, archives=entries, views=views)  # fmt: skip
    (root / "release.json").write_text(dump_release(release), encoding="utf-8")
    for name in FIXED:
        if name != "release.json":
            (root / name).write_text("text\n", encoding="utf-8")
    (root / "MANIFEST.sha256").write_text(manifest_text(root), encoding="utf-8")


def _file(root: Path, name: str) -> ViewFile:
    return ViewFile(path=name, bytes=(root / name).stat().st_size, sha256=sha256_file(root / name))


def _predict(folder: Path, panel: int, configurations: int) -> str:
    """Two versions of predictions for a panel, the older one in `folder`, to be named by its plan; its digest."""
    machine = {"device": synthetic.DEVICE, "torch": "2.13", "transformers": "5.17"}
    older, newer = [], []
    for i, settings in enumerate(synthetic.panel_settings(panel, configurations)):
        peak = (5 + 17 * i // (configurations - 1)) << 30
        fits = peak < synthetic.EFFECTIVE
        answer = {
            "completes": fits, "label": "within_margin" if fits else "memory_failure", "peak_reserved_bytes": peak,
            "peak_allocated_bytes": peak - 5, "peak_device_used_bytes": peak + MIB, "peak_stage": "actor_update",
            "smallest_capacity_bytes": peak, "interval": {"peak_reserved_bytes": [peak - 1, peak + 1]},
            "failure_stage": None if fits else "actor_update", "machine": machine,
        }  # fmt: skip
        older.append({**line(settings, **answer), "frozen_at": "2025-12-31T00:00:00.000000Z"})
        newer.append({**line(settings, version="2", **answer), "frozen_at": "2026-02-01T00:00:00.000000Z"})
    write(folder.parent / "newer" / "predictions.jsonl", *newer)
    return sha256_hex(write(folder / "predictions.jsonl", *older))


@pytest.fixture(scope="session")
def published(tmp_path_factory) -> Path:
    """Do not change it: copy it."""
    root = tmp_path_factory.mktemp("published")
    (root / "releases").mkdir()
    for number, attempts in enumerate((30, 12)):
        runs = tmp_path_factory.mktemp("runs")
        digest = _predict(runs / "frozen", number, attempts // 3) if number == 0 else None
        synthetic.write_panel(runs, number, attempts=attempts, samples=60, predictions_digest=digest)
        pack([runs], root / "releases" / f"2026-01-01_synthetic_part-{number}.tar.zst", level=3)
    for runs in sorted(WORKLOADS.iterdir()):
        pack([runs], root / "releases" / f"{runs.name}.tar.zst", level=3)
    _publish(root)
    return root


@pytest.fixture
def publish() -> Callable[[Path], None]:
    """Writes views, release.json and MANIFEST.sha256 beside the archives of a folder."""
    return _publish
