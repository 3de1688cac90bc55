"""Every check sees what it is for: a view file broken on purpose makes it return rows, and the sound release none."""

import shutil
from pathlib import Path

import duckdb
import pytest

from verification.__main__ import main
from verification.release import connect, read_release
from verification.run_checks import check_files, header, run_checks, run_one
from verification.structure import structure_checks

# (check, view, statement that breaks it). `it` is the view; SET and DELETE are short for UPDATE it and DELETE FROM it.
BROKEN = [
    ("attempt_numbers_are_dense", "attempts", "SET attempt_number = attempt_number + 1"),
    ("attempts_agree_with_their_trials", "attempts", "SET device_seconds = device_seconds + 1"),
    ("attempts_agree_with_their_trials", "trials", "SET seed = seed + 1"),
    ("attempts_are_eligible_or_not_trials", "attempts", "SET status = 'ineligible' WHERE seed = 0"),
    ("attempts_are_eligible_or_not_trials", "attempts", "SET trial_id = NULL WHERE seed = 0"),
    ("attempts_belong_to_planned_slots", "panel_slots", "DELETE WHERE slot_number = 4"),
    ("attempts_belong_to_planned_slots", "panel_slots", "SET attempts = 0 WHERE slot_number = 4"),
    ("attempts_partition_into_statuses", "attempts", "DELETE WHERE status = 'interrupted'"),
    ("attempts_partition_into_statuses", "attempts", "SET status = 'interrupted' WHERE seed = 0"),
    ("capacities_are_in_their_units", "trials", "SET capacity_mib = capacity_mib * 1024"),
    ("capacities_are_in_their_units", "trials", "SET ballast_bytes = 0"),
    ("completed_trials_have_no_failure", "trials", "SET completed_steps = 1"),
    ("completed_trials_have_no_failure", "trials", "SET failure_class = 'timeout' WHERE seed = 1"),
    ("completed_trials_have_their_peaks", "trials", "SET peak_reserved_bytes = NULL"),
    ("configuration_counts_follow_trials", "configurations", "SET eligible_trials = 9"),
    ("configuration_counts_follow_trials", "configurations", "SET memory_failures = 0"),
    (
        "configuration_peaks_follow_trials",
        "configurations",
        "SET max_completed_peak_mib = max_completed_peak_mib * 1.05",
    ),
    ("configuration_peaks_follow_trials", "configurations", "SET is_within_5_percent = true"),
    ("cpu_rows_carry_no_label", "configurations", "SET device_kind = 'cpu'"),
    ("cpu_rows_carry_no_label", "trials", "SET device = 'cpu'"),
    ("cpu_rows_carry_no_label", "trials", "SET capacity_source = NULL"),
    ("devices_count_their_trials", "devices", "SET trials = trials - 1"),
    ("failure_class_follows_status", "attempts", "SET failure_class = 'host_memory' WHERE status = 'memory_failure'"),
    ("failure_class_follows_status", "attempts", "SET failure_class = 'unknown' WHERE status = 'completed'"),
    ("failure_class_follows_status", "attempts", "SET reason = NULL WHERE status = 'ineligible'"),
    ("failures_are_plausible", "failures", "SET allocated_bytes = reserved_bytes + 1"),
    ("first_campaign_is_the_first", "configurations", "SET campaign = 'second'"),
    ("ids_name_one_thing", "configurations", "SET settings_id = (SELECT min(settings_id) FROM it)"),
    (
        "ids_name_one_thing",
        "configurations",
        "INSERT INTO it SELECT * REPLACE ('0' AS configuration_id) FROM it",
    ),
    ("interrupted_attempts_know_nothing", "attempts", "SET wall_seconds = 0 WHERE status = 'interrupted'"),
    ("interrupted_attempts_know_nothing", "attempts", "SET ended_at = NULL WHERE status = 'completed'"),
    ("iteration_costs_add_up", "iteration_costs", "SET tokens = tokens + 1 WHERE step = 2"),
    ("iteration_costs_add_up", "iteration_costs", "SET tokens_per_second = 0"),
    ("iteration_costs_add_up", "iteration_costs", "DELETE WHERE step = 2"),
    ("labels_follow_trials", "configurations", "SET label = 'within_margin' WHERE label = 'above_margin'"),
    ("labels_follow_trials", "configurations", "SET label = 'within_margin' WHERE label = 'unresolved'"),
    ("labels_follow_trials", "configurations", "SET label = NULL"),
    ("labels_follow_trials", "configurations", "SET limit_mib = limit_mib + 2048"),
    ("labels_follow_trials", "trials", "SET state = 'memory_failure', failure_class = 'device_memory'"),
    ("latest_predictions_were_frozen_last", "predictions", "SET is_latest = NOT is_latest"),
    ("latest_predictions_were_frozen_last", "predictions", "SET is_latest = true"),
    ("margin_fractions_follow_their_parts", "prediction_errors", "SET margin_fraction = margin_fraction * 1.001"),
    ("margin_fractions_follow_their_parts", "prediction_errors", "SET measured_fails_at_bytes = 5"),
    ("prediction_errors_follow_their_parts", "prediction_errors", "SET reserved_error = reserved_error + 1e-6"),
    ("prediction_errors_follow_their_parts", "prediction_errors", "DELETE WHERE is_latest"),
    ("prediction_errors_follow_their_parts", "prediction_errors", "SET is_label_right = NOT is_label_right"),
    ("prediction_errors_follow_their_parts", "predictions", "DELETE WHERE is_latest"),
    ("prospective_predictions_were_named_by_the_plan", "predictions", "SET is_prospective = NOT is_prospective"),
    ("prospective_predictions_were_named_by_the_plan", "predictions", "SET frozen_at = '2027-01-01'"),
    ("refused_predictions_say_nothing_else", "predictions", "SET refusal = 'cannot'"),
    ("refused_predictions_say_nothing_else", "predictions", "SET predicted_completes = NOT predicted_completes"),
    ("memory_failures_stand_in_failures", "failures", "DELETE WHERE seed = 1"),
    ("memory_failures_stand_in_failures", "trials", "DELETE WHERE state = 'memory_failure'"),
    ("overhead_is_plausible", "trials", "SET process_overhead_bytes = 9000000000"),
    ("overhead_is_plausible", "trials", "SET process_overhead_bytes = -1"),
    ("peak_is_the_larger_of_its_parts", "trials", "SET peak_device_used_bytes = peak_device_used_bytes + 1"),
    (
        "peak_is_the_larger_of_its_parts",
        "stage_peaks",
        "SET peak_device_used_bytes = peak_device_used_bytes - 1",
    ),
    ("peaks_are_ordered", "stage_peaks", "SET peak_allocated_bytes = peak_reserved_bytes + 1"),
    ("peaks_are_ordered", "trials", "SET peak_reserved_bytes = peak_device_used_bytes + 1"),
    ("replacements_are_marked", "attempts", "SET is_replacement = NOT is_replacement"),
    ("retries_follow_the_rule", "attempts", "SET failure_class = 'data' WHERE status = 'ineligible'"),
    ("retries_follow_the_rule", "attempts", "SET status = 'memory_failure' WHERE status = 'interrupted'"),
    ("samples_keep_first_last_and_peak", "memory_samples", "DELETE WHERE sample = 0"),
    ("samples_keep_first_last_and_peak", "memory_samples", "SET device_used_bytes = device_used_bytes - 1"),
    ("samples_lie_within_their_trial", "memory_samples", "SET elapsed_seconds = elapsed_seconds * 1e3"),
    ("samples_lie_within_their_trial", "memory_samples", "SET sample = sample + 1000"),
    ("settings_that_do_not_apply_are_null", "configurations", "SET critic_micro_batch = 1"),
    ("settings_that_do_not_apply_are_null", "configurations", "SET lora_rank = NULL"),
    ("sizes_are_plausible", "trials", "SET peak_process_used_bytes = -1"),
    ("sizes_are_plausible", "trials", "SET peak_reserved_bytes = 0"),
    ("slot_state_follows_attempts", "panel_slots", "SET state = 'completed' WHERE state = 'failed'"),
    ("slot_state_follows_attempts", "panel_slots", "SET state = 'interrupted' WHERE state = 'not started'"),
    ("stage_coverage_follows_the_trial", "stage_peaks", "SET coverage = 'terminal_partial' WHERE stage = 'reward'"),
    (
        "stage_peaks_stay_below_the_trial",
        "stage_peaks",
        "SET peak_reserved_bytes = 20000000000",
    ),
    ("stage_peaks_stay_below_the_trial", "stage_peaks", "DELETE WHERE stage = 'actor_update'"),
    ("times_are_positive_and_nest", "attempts", "SET wall_seconds = -wall_seconds"),
    ("times_are_positive_and_nest", "attempts", "SET ended_at = started_at - INTERVAL 1 SECOND"),
    ("times_are_positive_and_nest", "stage_peaks", "SET seconds = 1e3"),
    ("trial_limit_is_capacity_minus_margin", "trials", "SET limit_bytes = limit_bytes + 2147483648"),
    ("trial_limit_is_capacity_minus_margin", "trials", "SET is_within_5_percent = NOT is_within_5_percent"),
    ("trial_state_follows_its_peak", "trials", "SET state = 'within_margin' WHERE state = 'above_margin'"),
    ("trial_state_follows_its_peak", "trials", "SET state = NULL"),
    ("trials_agree_with_configurations", "trials", "SET workload = 'chat'"),
    ("vocabulary_is_closed", "stage_peaks", "SET stage = 'training' WHERE stage = 'actor_update'"),
    ("vocabulary_is_closed", "predictions", "SET predicted_label = 'unresolved'"),
    ("vocabulary_is_closed", "attempts", "SET status = 'done' WHERE seed = 1"),
    ("workload_exactness_follows_its_parts", "opd_workloads", "SET is_resume_exact = true"),
    ("workload_exactness_follows_its_parts", "opd_workloads", "SET differences = NULL"),
    ("workload_exactness_follows_its_parts", "opd_workloads", "SET differences = 'adapter: a' WHERE run = 'first'"),
    ("workload_rates_follow_their_seconds", "opd_workloads", "SET positions = 768"),
    ("workload_times_nest", "opd_workloads", "SET cold_start_seconds = 1e3 WHERE run = 'first'"),
    ("workload_times_nest", "opd_workloads", "SET recovery_pair_seconds = 5 WHERE run = 'first'"),
    ("workloads_are_their_trials", "opd_workloads", "SET rollout_seconds = rollout_seconds * 1.01 WHERE run = 'first'"),
    ("workloads_are_their_trials", "opd_workloads", "SET resumed_trial_id = trial_id"),
    ("workloads_are_their_trials", "opd_workloads", "SET engine = 'fitproof' WHERE run = 'peer'"),
    ("workloads_are_their_trials", "configurations", "SET deterministic = false WHERE algorithm = 'opd'"),
]
STRUCTURE = {
    "trials: key is unique": ("trials", "INSERT INTO it FROM (FROM it LIMIT 1)"),
    "trials: key is the row order": ("trials", "INSERT INTO it FROM (FROM it ORDER BY trial_id LIMIT 1)"),
    "trials.seed: never null": ("trials", "SET seed = NULL WHERE seed = 1"),
    "trials.wall_seconds: finite": ("trials", "SET wall_seconds = 'inf' WHERE seed = 1"),
    "failures.evidence: no host, user or path": (
        "failures",
        "SET evidence = 'File \"/home/someone/train.py\", line 3' WHERE seed = 1",
    ),
    "devices.os: no host, user or path": ("devices", "SET os = 'Linux node17.cluster'"),
    "attempts.reason: no host, user or path": ("attempts", "SET reason = 'ask someone@example.org'"),
    "stage_peaks -> trials": ("trials", "DELETE WHERE seed = 1"),
    "trials -> configurations": ("configurations", "DELETE WHERE label = 'within_margin'"),
    "trials -> attempts": ("attempts", "DELETE WHERE seed = 1"),
    "attempts -> configurations": ("configurations", "DELETE WHERE label = 'memory_failure'"),
    "memory_samples -> trials": ("trials", "DELETE WHERE seed = 2"),
    "iteration_costs -> trials": ("trials", "DELETE WHERE seed = 2"),
    "failures -> trials": ("trials", "DELETE WHERE state = 'memory_failure'"),
    "prediction_errors -> predictions": ("predictions", "DELETE WHERE is_latest"),
    "prediction_errors -> configurations": ("configurations", "DELETE WHERE label = 'memory_failure'"),
    "panel_slots -> configurations": ("configurations", "DELETE WHERE label = 'memory_failure'"),
}


def _break(published: Path, root: Path, view: str, statement: str) -> Path:
    """A copy of the release in which one view's file was rewritten by the statement."""
    shutil.copytree(published, root)
    single = root / "views" / f"{view}.parquet"
    file = single if single.exists() else min((root / "views" / view).glob("*.parquet"))
    with duckdb.connect() as db:
        db.execute("CREATE TABLE it AS FROM read_parquet($file)", {"file": str(file)})
        before = db.execute("SELECT count(*), sum(hash(it)) FROM it").fetchone()
        verb, rest = statement.split(" ", 1)
        db.execute({"SET": f"UPDATE it SET {rest}", "DELETE": f"DELETE FROM it {rest}"}.get(verb, statement))
        assert db.execute("SELECT count(*), sum(hash(it)) FROM it").fetchone() != before, "nothing was broken"
        db.execute(f"COPY it TO '{file}' (FORMAT parquet)")
    return root


def test_the_sound_release_passes_every_check(published):
    count, failures = run_checks(read_release(published))
    assert [f.render() for f in failures] == []
    assert count >= len(check_files()) + 200


def test_every_check_file_is_tested():
    assert {p.stem for p in check_files()} == {name for name, _, _ in BROKEN}


@pytest.mark.parametrize(("name", "view", "statement"), BROKEN)
def test_check_returns_rows_for_a_broken_view(published, tmp_path, name, view, statement):
    release = read_release(_break(published, tmp_path / "broken", view, statement))
    path = next(p for p in check_files() if p.stem == name)
    with connect(release) as db:
        failure = run_one(db, path.name, header(path), path.read_text(encoding="utf-8"))
    assert failure is not None
    assert failure.error == ""
    assert failure.count > 0
    assert failure.render().startswith(f"{path.name}: {failure.count} rows\n  proves: Proves: ")


@pytest.mark.parametrize("name", sorted(STRUCTURE))
def test_structural_check_returns_rows_for_a_broken_view(published, tmp_path, name):
    release = read_release(_break(published, tmp_path / "broken", *STRUCTURE[name]))
    with connect(release) as db:
        failure = run_one(db, name, "", dict(structure_checks(release))[name])
    assert failure is not None
    assert failure.error == ""


def test_a_column_of_another_type_or_name_is_seen(published, tmp_path):
    root = _rewrite(published, tmp_path / "broken", "SELECT * EXCLUDE (limit_bytes, seed), seed::VARCHAR AS seed")
    _, failures = run_checks(read_release(root))
    failure = next(f for f in failures if f.check == "trials: columns are the schema's")
    assert {row[1:] for row in failure.rows} == {("limit_bytes", "BIGINT"), ("seed", "BIGINT"), ("seed", "VARCHAR")}
    assert any(f.check == "labels_follow_trials.sql" and "cannot run" in f.error for f in failures)


def test_a_file_that_is_no_parquet_is_named(published, tmp_path, capsys):
    root = tmp_path / "broken"
    shutil.copytree(published, root)
    (root / "views" / "trials.parquet").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    assert main(["--root", str(root), "checks"]) == 1
    assert "view trials" in capsys.readouterr().err


def _rewrite(published: Path, root: Path, select: str) -> Path:
    shutil.copytree(published, root)
    source, target = published / "views" / "trials.parquet", root / "views" / "trials.parquet"
    with duckdb.connect() as db:
        db.execute(f"COPY ({select} FROM read_parquet('{source}')) TO '{target}' (FORMAT parquet)")
    return root
