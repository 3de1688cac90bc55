"""One attempt: its folder, from trial.json before the start to result.json at the very end."""

import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from ..schema.records import SCHEMA_VERSION
from .companion import CompanionLost
from .device import Capacity, Device
from .files import checkpoint_folder, sync_folder, utc_now, write_json
from .hold import hold_request, is_held
from .judge import judge
from .ledger import Ledger
from .plan import Plan, Slot
from .processes import oom_evidence, oom_kills
from .sampling import NO_SAMPLES, Cadence, Sampling
from .spawn import Ended, Spawner
from .traces import log_text, read_events, sample_problems


@dataclass(frozen=True, kw_only=True, slots=True)
class Bench:
    """What all attempts of one supervisor share. `versions`: installed torch and transformers."""

    plan: Plan
    folder: Path
    """<run dir>/<panel>"""
    ledger: Ledger
    device: Device
    spawner: Spawner
    sampling: Sampling
    campaign: str
    allocation_id: str
    versions: dict[str, str]


def time_limit_seconds(slot: Slot) -> int:
    """After this a trial hangs rather than works: three times its estimate, and never so tight that a cold start or a
    slow disk decides."""
    return max(180, 3 * slot.estimate_seconds)


def attempt_folder(panel_folder: Path, slot_id: str, attempt: int) -> Path:
    return panel_folder / slot_id / f"attempt-{attempt}"


def run_attempt(
    bench: Bench,
    slot_id: str,
    attempt: int,
    *,
    time_limit: int | None,
    stop: Callable[[], bool],
    resume: bool = False,
    hold_after: int | None = None,
) -> dict | None:
    """Measure one slot once; its result.json object, or None where `stop` interrupted it.

    With `resume` the trial goes on from the slot's last checkpoint, if there is one; without, it starts anew and
    checkpoints of earlier attempts are removed. With `hold_after` the trial holds once that step and its checkpoint are
    done, and is killed there: interrupted, like by any other kill.

    The order is what makes a kill at any moment harmless: trial.json, the ledger's start, the trial, result.json, the
    ledger's end, each on the disk before the next. Raises FitproofError when the device or the stack cannot be made
    ready: nothing has been tried then, and nothing is recorded.
    """
    slot = bench.plan.slots[slot_id]
    limit = time_limit or time_limit_seconds(slot)
    begun_ns = time.monotonic_ns()
    bench.spawner.start_server()
    capacity = bench.device.prepare(slot.settings)
    checkpoints = checkpoint_folder(attempt_folder(bench.folder, slot_id, attempt))
    if not resume and checkpoints.exists():
        shutil.rmtree(checkpoints)
    folder = _make_folder(bench, slot_id, slot, attempt, limit, capacity)
    bench.ledger.append(_ledger_line(bench, "start", slot_id, attempt))
    kills_before = oom_kills()
    ended, cadence, trouble = _measure(bench, folder, limit, stop, hold_after)
    if ended is not None and ended.interrupted:
        bench.ledger.append(_ledger_line(bench, "end", slot_id, attempt, status="interrupted"))
        return None
    bench.device.wait_until_clean()  # part of the attempt's device time; if it stays dirty the next one refuses
    events = read_events(folder / "events.jsonl")
    sampled = bench.sampling.interval_ns is not None
    verdict = judge(
        ended=ended,
        events=events,
        steps=slot.settings.total_training_steps,
        measurement_problems=sample_problems(folder / "memory.csv", cadence.samples) if sampled else [],
        harness=trouble,
        kernel_oom=oom_evidence(kills_before, oom_kills()),
        text=log_text(folder),
    )
    result = {
        **asdict(verdict),
        "exit_code": ended.exit_code if ended else None,
        "signal": ended.signal if ended else None,
        "completed_steps": events.completed_steps,
        "wall_ns": ended.wall_ns if ended else time.monotonic_ns() - begun_ns,
        "device_ns": time.monotonic_ns() - begun_ns,
        **asdict(cadence),
        "ended_at": utc_now(),
    }
    write_json(folder / "result.json", result)
    bench.ledger.append(end_line(bench, slot_id, attempt, result))
    return result


def end_line(bench: Bench, slot_id: str, attempt: int, result: dict) -> dict:
    """The ledger's end line that goes with a result.json."""
    return _ledger_line(bench, "end", slot_id, attempt, status=result["status"], failure_class=result["failure_class"])


def _measure(
    bench: Bench, folder: Path, limit: int, stop: Callable[[], bool], hold_after: int | None
) -> tuple[Ended | None, Cadence, str | None]:
    """(how the trial ended, what the sampler achieved, what failed on our side)."""
    ended, cadence, trouble = None, NO_SAMPLES, None

    def is_over() -> bool:
        return stop() or (hold_after is not None and is_held(folder))

    try:
        bench.sampling.start(folder / "memory.csv")
        ended = bench.spawner.run(
            folder,
            time_limit_seconds=limit,
            on_start=bench.sampling.watch,
            stop=is_over,
            environment=hold_request(hold_after),
        )
    except CompanionLost as error:
        trouble = str(error)
    try:
        cadence = bench.sampling.stop()
    except CompanionLost as error:
        trouble = trouble or str(error)
    if ended is not None and ended.leftovers:
        trouble = trouble or f"processes {list(ended.leftovers)} of the trial did not end on SIGKILL"
    return ended, cadence, trouble


def _make_folder(bench: Bench, slot_id: str, slot: Slot, attempt: int, limit: int, capacity: Capacity) -> Path:
    """The attempt's folder with trial.json and empty logs."""
    folder = attempt_folder(bench.folder, slot_id, attempt)
    folder.mkdir(parents=True)
    for name in ("stdout.log", "stderr.log"):
        (folder / name).touch()
    settings, plan = slot.settings, bench.plan
    trial = {
        "schema_version": SCHEMA_VERSION,
        "execution": "measured",
        "panel": plan.panel,
        "slot_id": slot_id,
        "attempt": attempt,
        "seed": slot.seed,
        "settings": settings.identity(),
        "settings_id": settings.settings_id,
        "configuration_id": settings.configuration_id(device=bench.device.name, **bench.versions),
        "device": bench.device.name,
        "device_kind": bench.device.kind,
        **bench.versions,
        **asdict(capacity),
        "weights": "random",
        "revision": None,
        "start_method": bench.spawner.start_method,
        "sampler_interval_ns": bench.sampling.interval_ns,
        "time_limit_seconds": limit,
        "created_at": utc_now(),
        "plan_digest": plan.digest,
        "code_digest": plan.code_digest,
        "campaign": bench.campaign,
        "allocation_id": bench.allocation_id,
    }
    write_json(folder / "trial.json", trial)
    sync_folder(folder.parent)
    sync_folder(bench.folder)
    return folder


def _ledger_line(
    bench: Bench, event: str, slot_id: str, attempt: int, *, status: str | None = None, failure_class: str | None = None
) -> dict:
    return {
        "event": event,
        "slot_id": slot_id,
        "attempt": attempt,
        "at": utc_now(),
        "allocation_id": bench.allocation_id,
        "campaign": bench.campaign,
        "status": status,
        "failure_class": failure_class,
    }
