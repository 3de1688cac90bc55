"""The card: front matter that declares what exists, tables that come from the data, staleness that is noticed."""

import subprocess
import sys
from pathlib import Path

import fitproof
import pytest
import yaml
from fitproof.hub.card import CARD, check_card, render, write_card
from fitproof.schema.views import VIEWS

from tests.hub.conftest import write

PREDICTION_ERRORS = VIEWS["prediction_errors"]
RUFF = Path(sys.executable).with_name("ruff")


@pytest.fixture
def card(release, views) -> str:
    return render(release, views)["README.md"]


def test_exactly_the_views_with_rows_are_declared(card):
    meta = yaml.safe_load(card.split("---\n")[1])
    names = [c["config_name"] for c in meta["configs"]]
    assert names == ["configurations", "trials", "attempts", "panel_slots", "memory_samples"]
    assert [c["config_name"] for c in meta["configs"] if c.get("default")] == ["configurations"]
    assert [d["config_name"] for d in meta["dataset_info"]] == names
    files = {c["config_name"]: c["data_files"] for c in meta["configs"]}
    assert files["memory_samples"] == [{"split": "measured", "path": "views/memory_samples/*.parquet"}]
    assert files["attempts"] == [{"split": "recorded", "path": "views/attempts.parquet"}]


def test_features_follow_the_column_types(card, views):
    meta = yaml.safe_load(card.split("---\n")[1])
    features = {d["config_name"]: {f["name"]: f["dtype"] for f in d["features"]} for d in meta["dataset_info"]}
    assert features["configurations"]["ended_at"] == "timestamp[us]"
    assert list(features["configurations"]) == [c.name for c in views[0].columns]


def test_the_question_stands_first_and_loading_before_reproducing(card):
    body = card.split("---\n", 2)[2]
    assert body.index("Will this LLM post-training configuration fit") < body.index("## What fits")
    headings = [line for line in body.splitlines() if line.startswith("## ")]
    assert headings == [
        "## What fits",
        "## Look at it in three lines",
        "## Coverage",
        "## Views",
        "## Reproduce it in four commands",
        "## Measure your own card",
        "## How to read a row",
        "## What is not claimed",
        "## Limits",
        "## Licence and citation",
    ]


def test_tables_come_from_the_data(card):
    assert (
        "3 measured configurations of 1 model in 1 family;\n3 eligible trials from 4 started attempts;\n1 trial "
        in card
    )
    # model with an escaped bar, largest within margin 2, nothing above, smallest failed 4
    assert r"| a/b\|c | short | grpo, lora | Card | 8,192 | emulated | 3 | 2 |  | 4 | 0 |" in card
    assert "| grid | 5 | 1 | 4 | 3 | 1 | 1 | 0 |" in card
    assert "| grid | 3 | 2 | 0 | 1 | 0 | 0 |" in card
    assert "| ineligible | timeout | over 540 s | 1 |" in card
    assert "| `memory_samples` | 3 | `measured` | thinned sample |" in card


def test_accuracy_is_over_the_newest_version_and_over_frozen_rows_apart(release, views):
    key = {"method": "dry_run", "measured_label": "within_margin", "predicted_label": "within_margin"}
    rows = [
        dict(configuration_id="c0", method_version="1", is_latest=False, is_prospective=True, reserved_error=-0.04,
             is_label_right=True, margin_fraction=0.5, measured_peak_stage="rollout", **key),
        dict(configuration_id="c0", method_version="2", is_latest=True, is_prospective=False, reserved_error=0.02,
             is_label_right=True, margin_fraction=0.5, measured_peak_stage="rollout", **key),
        dict(configuration_id="c1", method_version="2", is_latest=True, is_prospective=False, reserved_error=0.0,
             is_label_right=False, margin_fraction=0.001, measured_peak_stage="actor_update", **key),
        dict(configuration_id="c2", method="a-peer", method_version="0", is_latest=True, is_prospective=False),
    ]  # fmt: skip
    write(PREDICTION_ERRORS, rows, release / "views" / "prediction_errors.parquet")
    card = render(release, (*views, PREDICTION_ERRORS))["README.md"]
    table = card.split("## How good are the predictions")[1].split("## ")[0]
    lines = [line.strip("| ") for line in table.splitlines() if line.startswith("| ") and "---" not in line][1:]
    assert lines == [
        "dry_run | newest version | 2 | 1 | 1 of 2 | 1 of 1 | 2 |  |  | 1.00 | 2.00 | 2.00 | 2.00",
        "dry_run | frozen before its trials | 1 | 1 | 1 of 1 | 1 of 1 | 1 |  |  | 4.00 | 4.00 | 4.00 | 4.00",
        "a-peer | newest version | 1 | 1 | 0 of 0 | 0 of 0 | 0",
    ]
    assert "How good are the predictions" not in render(release, views)["README.md"]


def test_the_dictionary_has_every_column_of_every_view(release, views):
    text = render(release, views)["views/README.md"]
    for view in views:
        section = text.split(f"\n## {view.name}\n")[1].split("\n## ")[0]
        for column in view.columns:
            assert f"| `{column.name}` | {column.type} | {column.unit} | {column.null} | {column.meaning} |" in section
    assert "| [failures](#failures) | none yet |" in text
    assert "names a row of [configurations](#configurations) (`configuration_id`)" in text


def test_stale_absent_and_current_files_are_told_apart(release, views):
    assert check_card(release, views) == ["README.md", "views/README.md"]
    assert write_card(release, views) == ["README.md", "views/README.md"]
    assert check_card(release, views) == []
    readme = release / "README.md"
    readme.write_bytes(readme.read_bytes().replace(b"\n", b"\r\n"))
    assert check_card(release, views) == ["README.md"]


def test_a_folder_without_views_has_an_honest_card(tmp_path, views):
    text = render(tmp_path, views)["README.md"]
    assert "**No measurement is published yet.**" in text
    assert "configs:" not in text


def test_the_card_is_the_same_text_every_time(release, views):
    assert render(release, views) == render(release, views)


def test_the_version_in_citation_is_the_package_version():
    from pathlib import Path

    citation = yaml.safe_load((Path(__file__).parents[2] / "CITATION.cff").read_text())
    assert citation["version"] == fitproof.__version__


@pytest.mark.skipif(not RUFF.is_file(), reason="ruff comes with the extra dev")
def test_code_in_the_card_is_formatted_as_the_linter_wants_it(release, views):
    write_card(release, views)
    done = subprocess.run([RUFF, "format", "--check", "--isolated", release / CARD], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
