"""One attempt small enough to reckon by hand: peaks, overhead, intervals, state."""

import pytest

from verification import raw
from verification.archives import RawAttempt
from verification.identity import configuration_id, settings_id

MS = 1_000_000
MARGIN = 2_048 * 1_048_576


def _begin(ms: int, stage: str, step: int = 1) -> dict:
    return {"t_ns": ms * MS, "event": "stage_begin", "stage": stage, "step": step}


def _end(ms: int, stage: str, *, reserved: int, peak: int, tokens: int | None = None) -> dict:
    return {"t_ns": ms * MS, "event": "stage_end", "stage": stage, "step": 1, "reserved_bytes": reserved,
            "peak_reserved_bytes": peak, "peak_allocated_bytes": peak - 5, "tokens": tokens}  # fmt: skip


def _attempt(events: list[dict], rows: list[tuple[int, int, int | str]], **trial) -> RawAttempt:
    """rows: (ms, device used with a baseline of 1,000, process used or '')."""
    lines = ["t_ns,device_index,device_used_bytes,process_used_bytes", *(f"{ms * MS},0,{d},{p}" for ms, d, p in rows)]
    described = {"device_kind": "cuda", "baseline_used_bytes": 1_000, "effective_capacity_bytes": MARGIN + 700, **trial}
    result = {"status": "completed", "wall_ns": 90 * MS}
    return RawAttempt(archive="a", panel="p", slot_id="0" * 16, number=1, trial=described, events=events, result=result,
                      memory_csv="\n".join(lines).encode())  # fmt: skip


EVENTS = [
    _begin(10, "rollout"),
    _end(40, "rollout", reserved=300, peak=500, tokens=7),
    _begin(50, "actor_update"),
    _end(80, "actor_update", reserved=400, peak=600, tokens=9),
]
ROWS = [(5, 1_000, 0), (30, 1_320, 320), (45, 1_360, 360), (79, 1_490, 490), (85, 1_490, 490), (200, 1_900, 900)]


def test_overhead_is_the_largest_difference_to_the_first_sample_after_a_stage():
    # after 40 ms the first sample (45 ms) has 360 for 300 reserved; after 80 ms the first (85 ms) has 490 for 400
    assert raw.measure(_attempt(EVENTS, ROWS)).overhead == 90


def test_what_a_stage_released_just_before_its_end_is_no_overhead():
    rows = [(39, 6_000, 5_000), *ROWS]
    assert raw.measure(_attempt(EVENTS, rows)).overhead == 90


@pytest.mark.parametrize(
    ("ms", "overhead"), [(39, None), (40, 60), (44, 60), (45, None), (46, None)], ids=lambda value: str(value)
)
@pytest.mark.parametrize("event", ["stage_begin", "failure", "finished", "fact"])
def test_the_sample_lies_between_the_end_and_the_next_event_other_than_a_fact(event, ms, overhead):
    following = {"stage": "actor_update", "step": 1, "peak_reserved_bytes": 1, "peak_allocated_bytes": 1,
                 "name": "parameters", "value": 1}  # fmt: skip
    events = [*EVENTS[:2], {"t_ns": 45 * MS, "event": event, **following}]
    expected = 60 if event == "fact" and ms >= 40 else overhead
    assert raw.measure(_attempt(events, [(ms, 1_360, 360)])).overhead == expected


def test_samples_further_than_50_ms_say_nothing():
    assert raw.measure(_attempt(EVENTS[:2], [(95, 1_900, 900)])).overhead is None
    assert raw.measure(_attempt(EVENTS[:2], [(90, 1_900, 900)])).overhead == 600


def test_a_spike_between_two_samples_does_not_escape():
    attempt = _attempt(EVENTS, ROWS[:-1])
    row = raw.trial_row(attempt, raw.measure(attempt))
    assert row["peak_reserved_bytes"] == 600
    assert row["peak_device_used_bytes"] == 690  # 600 reserved + 90 overhead, above the largest sample of 490
    assert row["peak_process_used_bytes"] == 490
    assert row["state"] == "within_margin"


def test_the_limit_is_inclusive():
    for effective, state in ((MARGIN + 690, "within_margin"), (MARGIN + 689, "above_margin")):
        attempt = _attempt(EVENTS, ROWS[:-1], effective_capacity_bytes=effective)
        assert raw.trial_row(attempt, raw.measure(attempt))["state"] == state


def test_stages_have_their_own_peaks_and_only_their_samples():
    stages = raw.stage_peaks(raw.measure(_attempt(EVENTS, ROWS)))
    assert stages["rollout"]["peak_device_used_bytes"] == 590
    assert stages["rollout"]["peak_process_used_bytes"] == 320
    assert stages["actor_update"]["peak_process_used_bytes"] == 490
    assert (stages["rollout"]["ns"], stages["rollout"]["tokens"]) == (30 * MS, 7)


def test_a_failed_trial_shows_what_it_held_until_then():
    failure = {"t_ns": 70 * MS, "event": "failure", "stage": "actor_update", "peak_reserved_bytes": 450,
               "peak_allocated_bytes": 440}  # fmt: skip
    attempt = _attempt([*EVENTS[:3], failure], ROWS)
    attempt.result["status"] = "memory_failure"
    measured = raw.measure(attempt)
    row = raw.trial_row(attempt, measured)
    assert row["state"] == "memory_failure"
    assert row["peak_reserved_bytes"] == 500
    stage = raw.stage_peaks(measured)["actor_update"]
    assert (stage["coverage"], stage["ns"], stage["peak_reserved_bytes"]) == ("terminal_partial", 20 * MS, 450)
    assert stage["peak_device_used_bytes"] == 450 + 60


def test_a_killed_stage_counts_up_to_the_last_sample():
    measured = raw.measure(_attempt(EVENTS[:3], ROWS[:4]))
    assert raw.stage_peaks(measured)["actor_update"]["ns"] == (79 - 50) * MS
    assert raw.stage_peaks(measured)["actor_update"]["peak_reserved_bytes"] is None


def test_a_cpu_trial_is_counted_from_its_own_start():
    fact = {"t_ns": 8 * MS, "event": "fact", "name": "baseline_process_bytes", "value": 20}
    attempt = _attempt(
        [fact, *EVENTS], ROWS, device_kind="cpu", baseline_used_bytes=None, effective_capacity_bytes=None
    )
    measured = raw.measure(attempt)
    row = raw.trial_row(attempt, measured)
    assert measured.overhead is None
    assert row["state"] is None
    assert row["peak_device_used_bytes"] == 900 - 20


def test_ids_are_hashes_of_the_settings_without_what_may_differ():
    settings = {
        "model_id": "a",
        "capacity_mib": 1,
        "capacity_source": "device",
        "total_training_steps": 2,
        "gpu_count": 1,
    }
    other = {**settings, "capacity_mib": 5}
    stack = ("card", "cuda", "2.11", "5.17")
    assert settings_id(settings) == settings_id(other)
    assert configuration_id(settings, stack) != configuration_id(other, stack)
    assert configuration_id(settings, stack) != configuration_id(settings, ("card", "cuda", "2.12", "5.17"))


def test_ids_agree_with_the_package():
    pytest.importorskip("fitproof")
    from fitproof.schema.settings import resolve

    settings = resolve(model_id="Qwen/Qwen3-0.6B", workload="chat", capacity_mib=8192)
    assert settings_id(settings.identity()) == settings.settings_id
    expected = settings.configuration_id(device="card", torch="2.11.0+cu130", transformers="5.17.0")
    assert configuration_id(settings.identity(), ("card", "cuda", "2.11", "5.17")) == expected
