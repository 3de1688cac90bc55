"""One end-to-end run with the real trial: fork server, stack, tiny model, sampler, records."""

import json

from fitproof.runner import supervisor
from fitproof.runner.panels import cpu_tiny
from fitproof.runner.plan import Panel, freeze
from fitproof.schema.records import ATTEMPT_FILES, ENVIRONMENT, RESULT, STAGES, TRIAL, problems


def test_a_real_trial_leaves_a_whole_record(monkeypatch, tmp_path):
    monkeypatch.setattr("fitproof.runner.plan.code_digest", lambda: "0" * 64)  # the tree may change meanwhile
    panel = cpu_tiny()
    plan = freeze(Panel(name=panel.name, reason=panel.reason, device_kind="cpu", slots=panel.slots[:2]))
    summary = supervisor.run_panel(plan, tmp_path)
    assert (summary.statuses, summary.not_started, summary.stopped_by) == ({"completed": 2}, 0, None)
    for attempt in summary.folder.glob("*/attempt-1"):
        assert {p.name for p in attempt.iterdir()} == set(ATTEMPT_FILES)
        for name, spec in (("trial.json", TRIAL), ("environment.json", ENVIRONMENT), ("result.json", RESULT)):
            assert problems(json.loads((attempt / name).read_text()), spec, name) == []
        events = [json.loads(line) for line in (attempt / "events.jsonl").read_text().splitlines()]
        assert events[-1]["event"] == "finished"
        stages = {event["stage"] for event in events if event["event"] == "stage_end"}
        assert {"initializing", "rollout", "actor_update"} <= stages <= set(STAGES)
        rows = (attempt / "memory.csv").read_text().splitlines()[1:]
        sampled = [tuple(map(int, row.split(",")[::3])) for row in rows if not row.endswith(",")]
        assert len(sampled) >= 2
        # One clock for both: the trial's events lie between the sampler's first and last row.
        assert int(rows[0].split(",")[0]) < events[0]["t_ns"] <= events[-1]["t_ns"] < int(rows[-1].split(",")[0])
        assert max(used for _, used in sampled) > 1_000_000
