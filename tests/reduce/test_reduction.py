"""The reduction as a whole: the same bytes at any thread count and in any order, valid against the schema, loadable."""

import hashlib
import random
from pathlib import Path

import datasets
import duckdb
import pytest
from fitproof.evidence.pack import pack
from fitproof.reduce.identities import flat_canonical
from fitproof.reduce.ingest import ArchiveFile
from fitproof.reduce.reduction import reduce_archives
from fitproof.reduce.writer import arrow_schema, file_content_digest
from fitproof.schema.canonical import canonical_json
from fitproof.schema.settings import FIELD_NAMES, resolve
from fitproof.schema.views import VIEWS
from fitproof.schema.views.columns import SETTING_COLUMNS
from golden import pack_case

from benchmarks import synthetic


@pytest.fixture(scope="module")
def archives(tmp_path_factory) -> list[ArchiveFile]:
    folder = tmp_path_factory.mktemp("archives")
    made = []
    for index in range(3):
        run = folder / f"run-{index}"
        synthetic.write_panel(run, index, attempts=15, samples=120)
        packed = pack([run], folder / f"2026-01-0{index + 1}_synthetic_{index}.tar.zst", level=1)
        made.append(ArchiveFile(path=packed.path, sha256=packed.sha256))
    # the views that no synthetic panel fills
    return made + pack_case("predicted", folder) + pack_case("opd_workloads", folder)


def digests(out: Path) -> dict[str, str]:
    return {p.relative_to(out).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in out.rglob("*.parquet")}


@pytest.fixture(scope="module")
def reduced(archives, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    return out, reduce_archives(archives, out, threads=1)


def test_bytes_do_not_depend_on_threads_or_order(archives, reduced, tmp_path):
    shuffled = random.Random(3).sample(archives, len(archives))
    reduce_archives(shuffled, tmp_path, threads=4)
    assert digests(tmp_path) == digests(reduced[0])


def test_bytes_do_not_depend_on_the_size_of_batches(archives, reduced, tmp_path, monkeypatch):
    monkeypatch.setattr("fitproof.reduce.ingest.BATCH_ATTEMPTS", 2)
    monkeypatch.setattr("fitproof.reduce.database.INSERT_ROWS", 500)
    reduce_archives(archives, tmp_path)
    assert digests(tmp_path) == digests(reduced[0])


def test_every_view_has_its_schema_keys_and_references(reduced):
    out, views = reduced
    connection = duckdb.connect()
    for view in views:
        assert view.rows > 0
        connection.read_parquet([str(out / path) for path in view.files]).create_view(view.name)
    for view in views:
        schema = VIEWS[view.name]
        relation = connection.table(view.name)
        assert relation.columns == [c.name for c in schema.columns]
        assert [str(t) for t in relation.types] == [c.type for c in schema.columns]
        [(rows, keys)] = connection.execute(
            f"SELECT count(*), count(DISTINCT ({', '.join(schema.key)},)) FROM {view.name}"
        ).fetchall()
        assert rows == keys == view.rows
        for reference in schema.foreign_keys:
            pairs = zip(reference.columns, reference.references, strict=True)
            join = " AND ".join(f"here.{a} = there.{b}" for a, b in pairs)
            query = f"SELECT count(*) FROM {view.name} AS here ANTI JOIN {reference.view} AS there ON {join}"
            query += f" WHERE {' AND '.join(f'here.{name} IS NOT NULL' for name in reference.columns)}"
            assert connection.execute(query).fetchall() == [(0,)], (view.name, reference)


def test_content_digest_is_of_the_rows(reduced):
    out, views = reduced
    for view in views:
        if len(view.files) == 1:
            assert file_content_digest(out / view.files[0]) == view.content_sha256


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("name", ["configurations", "trials", "memory_samples", "devices"])
def test_files_load_with_datasets(reduced, name, streaming, tmp_path):
    out, views = reduced
    view = next(v for v in views if v.name == name)
    files = [str(out / path) for path in view.files]
    loaded = datasets.load_dataset("parquet", data_files=files, split="train", streaming=streaming, cache_dir=tmp_path)
    rows = list(loaded) if streaming else loaded
    assert len(rows) == view.rows
    assert list(rows[0]) == arrow_schema(VIEWS[name]).names


def test_totals_agree_with_the_ledger(reduced):
    out, _ = reduced
    attempts = duckdb.read_parquet(str(out / "views/attempts.parquet")).filter("panel LIKE 'synthetic%'")
    assert attempts.aggregate("count(*), count(trial_id)").fetchall() == [(3 * 15, 3 * 13)]


def test_no_archives_give_no_files(tmp_path):
    assert all(view.rows == 0 and view.files == () for view in reduce_archives([], tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_every_setting_is_a_column():
    assert list(SETTING_COLUMNS) == list(FIELD_NAMES)
    names = [c.name for c in VIEWS["configurations"].columns]
    assert set(FIELD_NAMES) <= set(names)
    assert names[:4] == ["model_id", "workload", "capacity_mib", "label"]


def test_flat_canonical_is_canonical_json():
    for settings in (resolve(), resolve(algorithm="opd", teacher_id="Qwen/Qwen3-1.7B", kv_reservation="0.6")):
        assert flat_canonical(settings.identity()) == canonical_json(settings.identity())
    with pytest.raises(ValueError, match="float"):
        flat_canonical({"a": 0.5})
    with pytest.raises(ValueError, match="IEEE"):
        flat_canonical({"a": 2**53})
