"""A small published tree: two archives, three view files, all texts, a release.json and a manifest that agree."""

import dataclasses
from pathlib import Path

from evidence_craft import sha256
from evidence_runs import SLOTS, write_attempt
from fitproof.code import code_digest
from fitproof.evidence.manifest import FIXED, MANIFEST, manifest_text
from fitproof.evidence.pack import pack
from fitproof.evidence.release import Release, ViewEntry, ViewFile, archive_entry, dump_release
from fitproof.schema.view import Column, ForeignKey, View

ARCHIVES = ("2026-12-01_cpu_panel.tar.zst", "2026-12-02_none_predictions.tar.zst")
TRIALS = View(
    name="trials",
    split="measured",
    grain="eligible trial",
    meaning="Peaks of each trial.",
    key=("trial_id",),
    columns=(
        Column("trial_id", "VARCHAR", "", "never", "Id of the trial."),
        Column("peak_reserved_bytes", "BIGINT", "bytes", "where the run failed", "Größe."),
    ),
    foreign_keys=(ForeignKey(("trial_id",), "attempts", ("trial_id",)),),
)
SAMPLES = dataclasses.replace(TRIALS, name="memory_samples", foreign_keys=(), is_per_archive=True)


def view_entry(root: Path, view: View, *names: str) -> ViewEntry:
    files = []
    for name in names:
        path = root / "views" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"PAR1" + name.encode())
        files.append(ViewFile(path=f"views/{name}", bytes=path.stat().st_size, sha256=sha256(path.read_bytes())))
    return ViewEntry(name=view.name, rows=7, content_sha256="c" * 64, files=tuple(files), schema=view)


def build_tree(root: Path, scratch: Path) -> Release:
    """Make the tree at `root` (input for packing goes to `scratch`)."""
    (root / "releases").mkdir(parents=True)
    write_attempt(scratch / "run", SLOTS[0], 0)
    write_attempt(scratch / "run", SLOTS[1], 5)
    (scratch / "other").mkdir()
    (scratch / "other" / "predictions.jsonl").write_text("{}\n")
    for folder, name in zip(("run", "other"), ARCHIVES, strict=True):
        pack([scratch / folder], root / "releases" / name)
    (root / "releases" / "README.md").write_text("The archive contract.\n")
    for name in FIXED:
        (root / name).write_text(f"{name}\n")
    release = Release(
        schema_version=1,
        tag="v1",
        parent_commit="a" * 40,
        code_digest=code_digest(),
        writer="duckdb 2.0.1",
        tools={"zstandard": "0.25.0", "python": "3.11"},
        archives=tuple(archive_entry(root / "releases" / name) for name in ARCHIVES),
        views=(
            view_entry(root, SAMPLES, "memory_samples/a.parquet", "memory_samples/b.parquet"),
            view_entry(root, TRIALS, "trials.parquet"),
        ),
    )
    (root / "views" / "README.md").write_text("Views.\n")
    write_release(root, release)
    return release


def write_release(root: Path, release: Release) -> None:
    (root / "release.json").write_text(dump_release(release), encoding="utf-8")
    write_manifest(root)


def write_manifest(root: Path) -> None:
    (root / MANIFEST).write_text(manifest_text(root), encoding="utf-8", newline="\n")
