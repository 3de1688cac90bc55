"""From what happened to a status (DATA_CONTRACT 3): completed and memory_failure are earned, all else is ineligible."""

import signal
from dataclasses import dataclass

from .diagnosis import diagnose_attempt
from .spawn import Ended
from .traces import Events


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """The part of result.json that says how an attempt ended."""

    status: str
    failure_class: str | None
    failure_stage: str | None
    evidence: str | None
    reason: str | None


def judge(
    *,
    ended: Ended | None,
    events: Events,
    steps: int,
    measurement_problems: list[str],
    harness: str | None,
    kernel_oom: str | None,
    text: str,
) -> Verdict:
    """`ended` is None when the supervisor lost sight of the trial; `harness` says what failed on our side, if anything.
    `steps`: total_training_steps. `text`: the logs. `kernel_oom`: evidence that the kernel killed for host memory
    while the trial ran, if there is any.
    """
    if ended is None:
        return _ineligible("harness", events.stage, harness, f"the runner itself failed: {harness}")
    problems = [*events.problems, *measurement_problems, *([harness] if harness else [])]
    if ended.exit_code == 0 and events.failure is None:
        return _after_exit_zero(events, steps, problems)
    found = diagnose_attempt(
        exception_types=list(events.failure["exception_types"]) if events.failure else [],
        message=events.failure["message"] if events.failure else "",
        failure_stage=events.failure["stage"] if events.failure else None,
        exit_code=ended.exit_code,
        signal=ended.signal,
        timed_out=ended.timed_out,
        # The count is the cgroup's: it speaks of this trial only if the trial died of a SIGKILL that was not ours.
        kernel_oom=kernel_oom if ended.signal == signal.SIGKILL and not ended.timed_out else None,
        last_stage=events.stage,
        text=text,
        device_free_bytes=events.failure["device_free_bytes"] if events.failure else None,
    )
    failure_class = found.failure_class or "unknown"
    if failure_class == "device_memory":
        if ended.timed_out:
            failure_class = "timeout"
        elif events.failure is None and ended.signal in (signal.SIGKILL, signal.SIGTERM):
            # Killed from outside before it could say why: text alone, perhaps of a survived failure, proves nothing.
            failure_class = "unknown"
    stage = found.stage or events.stage
    if failure_class == "device_memory":
        return Verdict(
            status="memory_failure",
            failure_class=failure_class,
            failure_stage=stage,
            evidence=found.evidence,
            reason=None,
        )
    return _ineligible(failure_class, stage, found.evidence, _how(ended))


def _after_exit_zero(events: Events, steps: int, problems: list[str]) -> Verdict:
    if events.finished_steps is None:
        return _ineligible("unknown", events.stage, None, "exit code 0 without the event 'finished'")
    if events.finished_steps != steps:
        return _ineligible("harness", None, None, f"finished {events.finished_steps} of {steps} steps")
    if problems:
        return _ineligible("harness", None, problems[0], "the measurement is not valid: " + "; ".join(problems))
    return Verdict(status="completed", failure_class=None, failure_stage=None, evidence=None, reason=None)


def _ineligible(failure_class: str, stage: str | None, evidence: str | None, reason: str) -> Verdict:
    return Verdict(
        status="ineligible", failure_class=failure_class, failure_stage=stage, evidence=evidence, reason=reason
    )


def _how(ended: Ended) -> str:
    if ended.timed_out:
        return f"killed at its time limit after {ended.wall_ns / 1e9:.0f} s"
    if ended.signal is not None:
        return f"ended by signal {ended.signal} ({signal.Signals(ended.signal).name})"
    return f"ended with exit code {ended.exit_code}"
