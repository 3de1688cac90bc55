"""Golden cases: small raw records whose views were worked out by hand."""

import json

import pytest
from fitproof.schema.views import VIEWS
from golden import CASES, expected_files, rows_of
from golden_inputs import INPUTS
from raw_cases import MIB

REGENERATE = ".venv/bin/python tests/reduce/golden.py {}"
NAMES = sorted(path.name for path in CASES.iterdir())


@pytest.fixture(scope="module")
def views(tmp_path_factory):
    made = {}

    def run(case: str) -> dict[str, list[dict]]:
        if case not in made:
            made[case] = rows_of(case, tmp_path_factory.mktemp(case))
        return made[case]

    return run


@pytest.mark.parametrize("case", NAMES)
def test_views_are_the_expected_ones(case, views):
    found, expected = views(case), expected_files(case)
    hint = f"if the change is meant: {REGENERATE.format(case)}"
    assert sorted(found) == sorted(expected), hint
    for view, path in expected.items():
        assert found[view] == json.loads(path.read_text(encoding="utf-8")), f"{case}/{view}: {hint}"


def test_no_golden_is_left_over():
    """Every case is made by golden_inputs.py, every expected file is of a view, and nothing else lies there."""
    assert sorted(INPUTS) == NAMES
    for case in NAMES:
        assert sorted(p.name for p in (CASES / case).iterdir()) == ["ORIGIN.md", "archives", "expected"]
        assert set(expected_files(case)) <= set(VIEWS)
        assert all(path.suffix == ".json" for path in (CASES / case / "expected").iterdir())


def test_inputs_are_what_their_origin_says(tmp_path):
    for case, make in INPUTS.items():
        make(tmp_path / case)
        made = {p.relative_to(tmp_path / case): p.read_bytes() for p in (tmp_path / case).rglob("*") if p.is_file()}
        folder = CASES / case / "archives"
        assert made == {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}, case


def one(rows: list[dict], **wanted) -> dict:
    [row] = [row for row in rows if all(row[k] == v for k, v in wanted.items())]
    return row


def test_a_spike_between_samples_counts_and_thinning_keeps_the_earliest_maxima(views):
    found = views("complete")
    trial = one(found["trials"], seed=0)
    assert trial["largest_device_used_sample_bytes"] == 7_000 * MIB
    assert trial["process_overhead_bytes"] == 500 * MIB
    assert trial["peak_device_used_bytes"] == 9_500 * MIB
    kept = [r for r in found["memory_samples"] if r["trial_id"] == trial["trial_id"] and r["stage"] == "rollout"]
    # bucket of 320..419: first 320, device 330 (not 340), process 340 (not 350); bucket of 420..519: 499, also the last
    assert [round(r["elapsed_seconds"] * 1000) for r in kept] == [320, 330, 340, 499]


def test_what_a_stage_released_just_before_its_end_is_no_overhead(views):
    """A sample 3 ms before the rollout's end still shows the pool: matched to the end it would make 9,500 MiB."""
    found = views("released_pool")
    overheads = {row["seed"]: row["process_overhead_bytes"] for row in found["trials"]}
    assert overheads == {0: 500 * MIB, 1: None, 2: 510 * MIB}
    peaks = {row["seed"]: row["peak_device_used_bytes"] for row in found["trials"]}
    assert peaks == {0: 12_500 * MIB, 1: 12_500 * MIB, 2: 12_510 * MIB}
    assert found["configurations"][0]["label"] == "within_margin"


def test_the_limit_is_inclusive(views):
    found = views("above_margin")
    states = {row["seed"]: row["state"] for row in found["trials"]}
    assert states == {0: "within_margin", 1: "within_margin", 2: "above_margin"}
    assert one(found["trials"], seed=1)["peak_device_used_bytes"] == one(found["trials"], seed=1)["limit_bytes"]
    [configuration] = found["configurations"]
    assert (configuration["label"], configuration["limit_mib"]) == ("above_margin", 14_324.0)


def test_a_failure_is_a_row_and_its_peak_is_no_demand(views):
    found = views("memory_failure")
    [configuration] = found["configurations"]
    assert configuration["label"] == "memory_failure"
    assert configuration["max_completed_peak_mib"] == 9_500.0
    failed = one(found["trials"], seed=1)
    stages = {r["stage"]: r for r in found["stage_peaks"] if r["trial_id"] == failed["trial_id"]}
    assert {s: r["coverage"] for s, r in stages.items()} == {
        "initializing": "completed", "rollout": "terminal_partial", "actor_update": "completed",
    }  # fmt: skip
    assert stages["rollout"]["peak_reserved_bytes"] == 15_000 * MIB
    assert stages["rollout"]["seconds"] == pytest.approx(0.180 + 0.080)
    assert one(found["failures"], seed=1)["requested_bytes"] == 512 * MIB
    silent = one(found["failures"], seed=2)
    assert (silent["stage"], silent["step"], silent["requested_bytes"]) == ("rollout", None, None)
    costs = [r for r in found["iteration_costs"] if r["trial_id"] == failed["trial_id"]]
    assert all(r["step"] < 2 for r in costs)


def test_what_was_interrupted_or_never_started_stays_visible(views):
    found = views("interrupted")
    assert [one(found["panel_slots"], seed=s)["state"] for s in range(3)] == ["completed", "interrupted", "not started"]
    assert sorted(r["status"] for r in found["attempts"]) == ["completed", "interrupted", "interrupted"]
    assert one(found["trials"], seed=0)["attempt_id"] == one(found["attempts"], attempt_number=2)["attempt_id"]


def test_a_cpu_trial_has_no_capacity_no_overhead_and_no_label(views):
    found = views("cpu")
    trial = one(found["trials"], seed=0)
    assert trial["peak_process_used_bytes"] - trial["peak_device_used_bytes"] == 300 * MIB
    nulls = ("state", "capacity_mib", "limit_bytes", "process_overhead_bytes", "is_within_5_percent")
    assert [trial[name] for name in nulls] == [None] * 5
    assert found["configurations"][0]["label"] is None


def test_later_campaigns_and_panels_do_not_enter_a_configuration(views):
    [configuration] = views("two_campaigns")["configurations"]
    wanted = {"label": "within_margin", "memory_failures": 0, "campaign": "first", "campaigns": 2, "panel": "golden",
              "planned_slots": 7, "eligible_trials": 4, "distinct_seeds": 3}  # fmt: skip
    assert {name: configuration[name] for name in wanted} == wanted


def test_the_label_is_of_the_three_smallest_seeds_under_their_smallest_limit(views):
    found = views("four_seeds")
    by_capacity = {row["capacity_mib"]: row for row in found["configurations"]}
    sixteen = by_capacity[16_384]
    wanted = {"label": "above_margin", "limit_mib": 14_224.0, "single_run_state": "within_margin",
              "above_margin_trials": 0, "memory_failures": 1, "eligible_trials": 4}  # fmt: skip
    assert {name: sixteen[name] for name in wanted} == wanted
    states = {row["seed"]: row["state"] for row in found["trials"] if row["capacity_mib"] == 16_384}
    assert states == {1: "within_margin", 2: "within_margin", 3: "within_margin", 9: "memory_failure"}
    unknown = {capacity: (row["label"], row["single_run_state"]) for capacity, row in by_capacity.items()}
    assert (unknown[20_480], unknown[24_576]) == (("unresolved", None), ("memory_failure", None))


def test_a_prediction_is_prospective_only_where_the_plan_of_the_trials_names_it(views):
    rows = views("predicted")["predictions"]
    standing = {(r["method"], r["method_version"], r["configuration_id"]): r for r in rows}
    assert len(rows) == len(standing) == 7
    errors = views("predicted")["prediction_errors"]
    assert len(errors) == 5  # C and D have no trial
    assert {(r["method_version"], r["is_prospective"], r["is_latest"]) for r in errors if r["method"] == "dry_run"} == {
        ("1", True, False), ("2", False, True),
    }  # fmt: skip
    unmeasured = [r for r in rows if r["configuration_id"] not in {e["configuration_id"] for e in errors}]
    assert [(r["is_prospective"], r["is_latest"]) for r in unmeasured] == [(False, True)] * 2
    [refused] = [r for r in unmeasured if r["refusal"]]
    assert (refused["predicted_label"], refused["predicted_peak_reserved_bytes"]) == (None, None)


def test_errors_are_against_the_measurement_and_null_where_a_trial_failed(views):
    errors = views("predicted")["prediction_errors"]
    completed = one(errors, method_version="2", measured_label="within_margin")
    assert completed["reserved_error"] == 9_090 / 9_000 - 1
    assert completed["device_used_error"] == 9_595 / 9_500 - 1
    assert completed["allocated_error"] == completed["worst_stage_allocated_error"] == 0
    assert completed["worst_stage_reserved_error"] == max(9_090 / 9_000, 6_060 / 6_000) - 1
    assert completed["measured_peak_stage"] == completed["predicted_peak_stage"] == "actor_update"
    assert completed["margin_fraction"] == (14_324 - 9_500) / 16_372
    bisected = (completed["measured_fails_at_bytes"], completed["measured_completes_at_bytes"])
    assert bisected == (9_788 * MIB, 9_888 * MIB)
    assert completed["smallest_capacity_error"] == 9_840 / 9_888 - 1
    failed = one(errors, method_version="2", measured_label="memory_failure")
    nulls = ("reserved_error", "device_used_error", "allocated_error", "worst_stage_reserved_error",
             "measured_peak_reserved_bytes", "measured_peak_stage", "smallest_capacity_error")  # fmt: skip
    assert [failed[name] for name in nulls] == [None] * 7
    assert failed["margin_fraction"] == 412 / 16_372
    assert (failed["is_label_right"], failed["measured_failure_stage"]) == (True, "rollout")
    peer = one(errors, method="fitcheck-llm")
    assert (peer["reserved_error"], peer["device_used_error"], peer["is_label_right"]) == (
        9_900 / 9_000 - 1,
        None,
        None,
    )
    assert peer["margin_fraction"] == completed["margin_fraction"]


def test_a_small_card_has_a_state_but_no_label(views):
    [configuration] = views("small_capacity")["configurations"]
    assert configuration["label"] is None
    assert configuration["single_run_state"] == "above_margin"
    assert configuration["is_within_5_percent"] is True  # the largest peak is 95 % to the byte


def test_a_workload_is_its_attempts_and_what_they_say_counts(views):
    rows = {row["run"]: row for row in views("opd_workloads")["opd_workloads"]}
    first = rows["first"]
    rates = ("rollout_tokens_per_second", "teacher_positions_per_second", "update_positions_per_second")
    assert [first[name] for name in rates] == [256 / 0.050, 256 / 0.010, 256 / 0.040]
    times = ("cold_start_seconds", "first_rollout_seconds", "first_update_seconds", "resume_load_seconds")
    assert [first[name] for name in times] == pytest.approx([0.350, 0.460, 0.580, 0.003])
    assert (first["is_resume_exact"], first["differences"], first["downshifts"]) == (True, None, 0)
    again = rows["again"]
    assert (again["is_resume_exact"], again["is_trajectory_equal"], again["is_adapter_equal"]) == (False, False, True)
    lost = rows["lost"]
    assert (lost["is_resume_exact"], lost["is_trajectory_equal"], lost["is_optimizer_equal"]) == (False, False, False)
    assert lost["differences"] == "optimizer: a/exp_avg differs in 1 of 4 bytes"
    peer = rows["peer"]
    assert (peer["engine"], peer["rollout_tokens_per_second"], peer["is_resume_exact"]) == ("peer 1.0", 25.6, True)
    assert [peer[name] for name in ("trial_id", "configuration_id", "cycles", "import_seconds")] == [None] * 4
