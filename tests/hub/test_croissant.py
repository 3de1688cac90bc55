"""views/croissant.json: what the schema says, the digests of the real files, and the same text every time."""

import hashlib
import json

import pytest
from fitproof.hub.croissant import check_croissant, croissant, write_croissant


@pytest.fixture
def document(release, views) -> dict:
    return json.loads(croissant(release, views))


def test_views_with_rows_and_their_columns_are_record_sets(document, views):
    fields = {r["@id"]: [f["name"] for f in r["field"]] for r in document["recordSet"]}
    assert fields == {v.name: [c.name for c in v.columns] for v in views if v.name != "failures"}


def test_every_file_stands_with_its_digest(document, release):
    files = {d["contentUrl"]: d["sha256"] for d in document["distribution"] if d["@type"] == "cr:FileObject"}
    assert sorted(files) == sorted(
        [f"{name}.parquet" for name in ("attempts", "configurations", "panel_slots", "trials")]
        + ["memory_samples/one.parquet", "memory_samples/two.parquet"]
    )
    for name, digest in files.items():
        assert hashlib.sha256((release / "views" / name).read_bytes()).hexdigest() == digest


def test_sources_and_references_name_things_that_exist(document):
    distribution = {d["@id"] for d in document["distribution"]}
    fields = {f["@id"]: f for r in document["recordSet"] for f in r["field"]}
    for field in fields.values():
        source = field["source"].get("fileObject") or field["source"].get("fileSet")
        assert source["@id"] in distribution
    assert fields["trials/configuration_id"]["references"] == {"field": {"@id": "configurations/configuration_id"}}
    assert {k["@id"] for r in document["recordSet"] for k in r["key"]} <= fields.keys()


def test_unit_and_null_rule_are_in_the_description(document):
    trials = next(r for r in document["recordSet"] if r["@id"] == "trials")
    assert trials["field"][4]["description"] == "Meaning of peak_bytes. Unit: bytes. Null: x."


def test_it_is_written_under_views_and_stable(release, views):
    assert write_croissant(release, views) == "views/croissant.json"
    first = (release / "views" / "croissant.json").read_bytes()
    write_croissant(release, views)
    assert (release / "views" / "croissant.json").read_bytes() == first
    assert str(release) not in first.decode()


def test_a_stale_file_is_noticed(release, views):
    assert check_croissant(release, views) == ["views/croissant.json"]
    write_croissant(release, views)
    assert check_croissant(release, views) == []
    (release / "views" / "memory_samples" / "two.parquet").unlink()
    assert check_croissant(release, views) == ["views/croissant.json"]
