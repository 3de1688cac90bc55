"""Panels predicted through the command: plan --predict, run --dry-run, predict --plan and --freeze."""

import json

import pytest
from fitproof.cli.app import app
from fitproof.runner import panels
from fitproof.runner.plan import Panel, Slot, load_plan
from fitproof.schema.canonical import sha256_hex
from fitproof.schema.settings import resolve
from typer.testing import CliRunner


@pytest.fixture
def call(monkeypatch, tmp_path):
    """Runs the command with one small panel, `small`: four slots of two configurations, one beyond the dry run."""
    tiny = dict(model="fitproof/tiny-qwen3", train_batch_size=2, rollout_n=2, max_prompt_length=8,
                max_response_length=8, max_num_seqs=4, actor_micro_batch=2, capacity_mib=8192)  # fmt: skip
    settings = [resolve(**tiny), resolve(**tiny, rollout_engine="hf_paged")]
    slots = tuple(Slot(settings=s, seed=seed, estimate_seconds=1) for seed in (0, 1) for s in settings)
    made = {
        "small": lambda: Panel(name="small", reason="a test", device_kind="cuda", slots=slots),
        "cpu": lambda: Panel(name="cpu", reason="a test", device_kind="cpu", slots=slots),
    }
    monkeypatch.setattr(panels, "PANELS", made)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return lambda *arguments: CliRunner().invoke(app, [str(a) for a in arguments])


def test_a_plan_names_the_predictions_that_were_frozen_first(call, tmp_path):
    folder = tmp_path / "frozen"
    folder.mkdir()
    done = call("plan", "small", "--predict", "--torch", "2.11", "--transformers", "5.17", "-o", folder / "plan.json")
    assert done.exit_code == 0, done.output
    data = (folder / "predictions.jsonl").read_bytes()
    assert load_plan(folder / "plan.json").predictions_digest == sha256_hex(data)
    lines = [json.loads(line) for line in data.splitlines()]
    assert [bool(line["refusal"]) for line in lines] == [False, True]
    assert {(x["device"], x["torch"], x["transformers"]) for x in lines} == {("NVIDIA H200", "2.11", "5.17")}
    again = call("plan", "small", "--predict", "-o", folder / "plan.json")
    assert "frozen predictions" in str(again.exception)
    assert (folder / "predictions.jsonl").read_bytes() == data


def test_what_cannot_be_predicted_is_a_wrong_call(call, tmp_path):
    assert "no -o FILE" in str(call("plan", "small", "--predict").exception)
    assert "device kind cpu" in str(call("plan", "cpu", "--predict", "-o", tmp_path / "plan.json").exception)
    assert list(tmp_path.glob("*.json*")) == []
    assert "settings beside it" in str(call("predict", "--plan", "small", "--set", "model=Qwen3-0.6B").exception)
    assert "no --plan" in str(call("predict", "--freeze", tmp_path).exception)


def test_a_dry_run_measures_nothing_and_lists_what_it_cannot_follow(call, tmp_path):
    done = call("run", "small", "--dry-run", "--json", "--out", tmp_path / "runs")
    assert done.exit_code == 0, done.output
    assert not (tmp_path / "runs").exists()
    fits, refused = json.loads(done.stdout)
    assert (fits["label"], fits["refusal"]) == ("within_margin", None)
    assert 0 < fits["peak_allocated_bytes"] <= fits["peak_reserved_bytes"] < fits["smallest_capacity_bytes"]
    assert refused["refusal"].startswith("rollout_engine=hf_paged")
    table = call("run", "small", "--dry-run")
    assert "within_margin" in table.stdout
    assert "cannot follow" in table.stderr


def test_a_plan_file_can_be_predicted_and_frozen_afterwards(call, tmp_path):
    plan = tmp_path / "plan.json"
    assert call("plan", "small", "-o", plan).exit_code == 0
    done = call("predict", "--plan", plan, "--plan", "small", "--freeze", tmp_path / "later", "--json")
    assert done.exit_code == 0, done.output
    ids = [row["configuration_id"] for row in json.loads(done.stdout)]
    lines = (tmp_path / "later" / "predictions.jsonl").read_text().splitlines()
    assert [json.loads(line)["configuration_id"] for line in lines] == ids
    assert len(ids) == 2
