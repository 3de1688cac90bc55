"""Statuses from what happened: a label is earned, never assumed."""

import json
import signal

import pytest
from fitproof.errors import EnvironmentLacks
from fitproof.runner.guard import refuse_unsafe_paging, trainable_parameters
from fitproof.runner.judge import judge
from fitproof.runner.processes import oom_evidence, without_secrets
from fitproof.runner.spawn import Ended
from fitproof.runner.traces import log_text, read_events
from fitproof.schema.models import get_model
from fitproof.schema.settings import resolve

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 8.00 GiB"
BEGIN = {"event": "stage_begin", "stage": "actor_update", "step": 2, "allocated_bytes": 1, "reserved_bytes": 1}
FINISHED = {"event": "finished", "completed_steps": 2}
FAILURE = {
    "event": "failure", "stage": "rollout", "step": 1, "exception_types": ["torch.OutOfMemoryError"],
    "message": OOM.partition(": ")[2],
    **dict.fromkeys(("allocated_bytes", "reserved_bytes", "peak_allocated_bytes", "peak_reserved_bytes",
                     "alloc_retries", "oom_count", "requested_alloc_bytes", "device_free_bytes",
                     "reclaimable_bytes")),
}  # fmt: skip


@pytest.fixture
def verdict(tmp_path):
    def decide(*events, exit_code=None, number=None, timed_out=False, ended=True, text="", problems=(), **given):
        lines = [json.dumps({"t_ns": t, **event}) for t, event in enumerate(events)]
        (tmp_path / "events.jsonl").write_text("".join(line + "\n" for line in lines))
        how = Ended(
            exit_code=exit_code, signal=number, timed_out=timed_out, interrupted=False, wall_ns=10**9, leftovers=()
        )
        given = {"harness": None, "kernel_oom": None, **given}
        events = read_events(tmp_path / "events.jsonl")
        got = judge(
            ended=how if ended else None,
            events=events,
            steps=2,
            measurement_problems=list(problems),
            text=text,
            **given,
        )
        return got.status, got.failure_class, got.failure_stage

    return decide


def test_completed_needs_exit_zero_all_steps_and_a_valid_measurement(verdict):
    assert verdict(BEGIN, FINISHED, exit_code=0) == ("completed", None, None)
    assert verdict(BEGIN, FINISHED, exit_code=0, problems=["memory.csv: 1 rows"])[:2] == ("ineligible", "harness")
    assert verdict(BEGIN, FINISHED, exit_code=0, harness="the sampler died")[:2] == ("ineligible", "harness")
    assert verdict(BEGIN, {**FINISHED, "completed_steps": 1}, exit_code=0)[:2] == ("ineligible", "harness")
    assert verdict(BEGIN, exit_code=0) == ("ineligible", "unknown", "actor_update")
    assert verdict({**BEGIN, "surprise": 1}, FINISHED, exit_code=0)[:2] == ("ineligible", "harness")
    assert verdict(BEGIN, FINISHED, exit_code=3)[0] == "ineligible"
    assert verdict(BEGIN, FINISHED, number=signal.SIGSEGV)[0] == "ineligible"


def test_memory_failure_needs_the_device(verdict):
    assert verdict(BEGIN, FAILURE, exit_code=10) == ("memory_failure", "device_memory", "rollout")
    # Killed just after it had recorded its failure: the record stands.
    assert verdict(BEGIN, FAILURE, number=signal.SIGKILL)[0] == "memory_failure"
    # The C++ side ends the process itself.
    assert verdict(BEGIN, number=signal.SIGABRT, text=f"terminate called\n{OOM}")[0] == "memory_failure"
    host = {**FAILURE, "exception_types": ["MemoryError"], "message": ""}
    assert verdict(BEGIN, host, exit_code=10)[:2] == ("ineligible", "host_memory")


def test_an_outside_kill_is_never_a_memory_failure(verdict):
    for number in (signal.SIGKILL, signal.SIGTERM):
        assert verdict(BEGIN, number=number, text=OOM) == ("ineligible", "unknown", "actor_update")
    evidence = oom_evidence(3, 4)
    assert verdict(BEGIN, number=signal.SIGKILL, kernel_oom=evidence)[:2] == ("ineligible", "host_memory")
    # The counter is the whole cgroup's: another process's end says nothing about a trial that crashed.
    assert verdict(BEGIN, number=signal.SIGSEGV, kernel_oom=evidence)[1] != "host_memory"
    assert verdict(BEGIN, number=signal.SIGKILL, timed_out=True)[:2] == ("ineligible", "timeout")
    assert verdict(BEGIN, number=signal.SIGKILL, timed_out=True, text=OOM)[:2] == ("ineligible", "timeout")


def test_a_trial_out_of_sight_is_a_harness_failure(verdict):
    assert verdict(BEGIN, FINISHED, ended=False, harness="fork server died")[:2] == ("ineligible", "harness")


def test_events_of_a_killed_trial_keep_what_they_had(tmp_path):
    path = tmp_path / "events.jsonl"
    assert read_events(path).stage == "initializing"
    first = json.dumps({"t_ns": 5, **BEGIN})
    path.write_text(first + "\n" + '{"t_ns": 6, "eve')
    events = read_events(path)
    assert (events.stage, events.completed_steps, events.problems) == ("actor_update", 1, ())
    path.write_text(first + "\n{\n" + first.replace("5", "4", 1) + "\n")
    assert [p.split(": ")[1] for p in read_events(path).problems] == ["no JSON", "the clock goes backwards"]


def test_long_logs_keep_both_ends(tmp_path):
    (tmp_path / "stderr.log").write_bytes(b"first\n" + b"x" * 2_000_000 + b"\nlast")
    text = log_text(tmp_path)
    assert text.lstrip().startswith("first")
    assert text.endswith("last")
    assert len(text) < 1_000_000


def test_kernel_evidence_needs_two_readings_and_a_rise():
    assert oom_evidence(None, 4) is oom_evidence(4, None) is oom_evidence(4, 4) is None
    assert "from 4 to 5" in oom_evidence(4, 5)


def test_secrets_do_not_reach_a_trial():
    names = ("HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "SSH_PRIVATE_KEY")
    dropped = dict.fromkeys(names, "x")
    kept = {"PATH": "/bin", "CUDA_VISIBLE_DEVICES": "0", "TOKENIZERS_PARALLELISM": "false"}
    assert without_secrets({**dropped, **kept}) == kept


def test_paged_state_stays_under_a_quarter_of_the_card():
    paged = resolve(model_id="Qwen3-0.6B", adaptation="full", optimizer="paged_adamw_8bit")
    with pytest.raises(EnvironmentLacks, match="adamw_8bit") as caught:
        refuse_unsafe_paging(paged, 4 * 2**30)
    assert caught.value.exit_code == 3
    refuse_unsafe_paging(paged, 80 * 2**30)
    refuse_unsafe_paging(resolve(model_id="Qwen3-0.6B", adaptation="full"), 0)


def test_trainable_parameters():
    assert trainable_parameters(resolve(model_id="Qwen3-0.6B", adaptation="full")) == get_model("Qwen3-0.6B").parameters
    # 28 layers of rank 8 on seven projections: the published count of this adapter.
    assert trainable_parameters(resolve(model_id="Qwen3-0.6B", lora_rank=8)) == 5_046_272
