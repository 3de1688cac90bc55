"""Measures a frozen panel, slot by slot, each in a fresh process; can be killed at any moment and started again.

Never imports torch. Companion processes: the fork server (which has the stack), the sampler, and for emulated
capacities the ballast; all of them end with the supervisor, however it ends.
"""

import contextlib
import secrets
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from ..errors import EnvironmentLacks, UsageError
from .attempt import Bench, run_attempt
from .device import Device, open_device
from .done import archived_ledger
from .entry import CHILD
from .guard import refuse_missing_engine, refuse_unsafe_paging
from .ledger import Ledger
from .plan import Plan, require_own_code
from .progress import PanelProgress
from .recover import keep_plan, keep_predictions, recover
from .retries import FRESH, slot_states
from .sampling import DEFAULT_INTERVAL_NS, Sampling
from .spawn import START_METHODS, Spawner

# Tiny models gain nothing from threads; on busy cores their spinning makes a trial fifty times slower, and every thread
# brings memory of its own into a measurement that should not depend on the number of cores.
_ENVIRONMENT = {"cpu": {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}, "cuda": {}, "rocm": {}}


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSummary:
    """What one call of `run_panel` did. Counts are attempts by status, of this call alone; slots are of the plan."""

    panel: str
    folder: Path
    slots: int
    done_before: int
    """Slots that needed nothing: their results stand in the ledger or in the archives named as done."""
    statuses: dict[str, int]
    not_started: int
    """Slots still without a result when the call ended, whatever kept them: the deadline or a signal."""
    stopped_by: str | None
    """None (nothing left that could start), 'deadline' or 'signal'."""
    seconds: float

    @property
    def is_complete(self) -> bool:
        return self.not_started == 0


def run_panel(
    plan: Plan,
    out_dir: Path,
    *,
    predictions: Path | None = None,
    done_archives: Iterable[Path] = (),
    deadline_seconds: float | None = None,
    campaign: str = "first",
    sampler: bool = True,
    sampler_interval_ns: int | None = None,
    start_method: str = "forkserver",
    time_limit_seconds: int | None = None,
    resume: bool = False,
    hold_after: int | None = None,
    spawner: Spawner | None = None,
    target: str = CHILD,
    preload: tuple[str, ...] | None = None,
) -> RunSummary:
    """Measure every slot of `plan` that has no result yet, into `<out_dir>/<panel>/`.

    `predictions`: where those lie that the plan names, to be kept beside it; none there is no fault.
    `deadline_seconds` from now: no slot starts whose estimate exceeds what remains, and a trial still running then is
    interrupted. `sampler=False` is for the panel that asks what sampling costs: such trials have no device peak.
    `sampler_interval_ns` None: 10 ms on a GPU, 20 ms on a CPU. `time_limit_seconds` None: from each slot's estimate.
    `resume`: a slot whose last attempt was interrupted goes on from its last checkpoint (settings.checkpoint_every) in
    the new attempt; otherwise, and without a checkpoint, it starts anew.
    `hold_after`: the first attempt of every slot is killed once this step and its checkpoint are done; with `resume`
    the next one goes on from there. `spawner`: the caller's, which stays open for its next panel; then `target` and
    `preload`, the trial's main function and what the fork server imports, are its own.

    SIGINT and SIGTERM kill the running trial, which stays `interrupted` in the ledger, and end the call normally.
    Raises CheckFailed (other code's plan, a device in use), UsageError (a locked or foreign run directory),
    EvidenceError (predictions that the plan does not name),
    EnvironmentLacks (no such device, no stack, an unsafe request).
    """
    begun = time.monotonic()
    if start_method not in START_METHODS:
        raise UsageError(f"start method {start_method!r}", found="unknown", expected=" or ".join(START_METHODS))
    require_own_code(plan)
    _refuse_capacity_on_cpu(plan)
    folder = Path(out_dir) / plan.panel
    earlier = archived_ledger(done_archives, plan.panel)
    interval = (sampler_interval_ns or DEFAULT_INTERVAL_NS[plan.device_kind]) if sampler else None
    with contextlib.ExitStack() as stack:
        ledger = stack.enter_context(Ledger(folder / "ledger.jsonl"))
        device: Device = open_device(plan.device_kind)
        stack.callback(device.close)
        keep_plan(plan, folder)
        keep_predictions(plan, predictions, folder)
        for slot in plan.slots.values():
            refuse_missing_engine(slot.settings)
            refuse_unsafe_paging(slot.settings, device.free())
        sampling = Sampling(plan.device_kind, device.uuid, interval)
        stack.callback(sampling.close)
        if spawner is None:
            spawner = make_spawner(plan.device_kind, start_method, target=target, preload=preload)
            stack.callback(spawner.close)
        bench = Bench(
            plan=plan,
            folder=folder,
            ledger=ledger,
            device=device,
            spawner=spawner,
            sampling=sampling,
            campaign=campaign,
            allocation_id=secrets.token_hex(8),
            versions=_versions(),
        )
        recover(bench)
        signalled = stack.enter_context(_signals())
        deadline = None if deadline_seconds is None else begun + deadline_seconds
        return _run_slots(bench, earlier, begun, deadline, time_limit_seconds, resume, hold_after, signalled)


def make_spawner(
    device_kind: str,
    start_method: str = "forkserver",
    *,
    target: str = CHILD,
    preload: tuple[str, ...] | None = None,
) -> Spawner:
    """What starts the trials of a device kind. The caller closes it."""
    return Spawner(start_method, target=target, preload=preload, environment=_ENVIRONMENT[device_kind])


def _run_slots(
    bench: Bench,
    earlier: list[dict],
    begun: float,
    deadline: float | None,
    limit: int | None,
    resume: bool,
    hold_after: int | None,
    signalled: threading.Event,
) -> RunSummary:
    plan, statuses, late = bench.plan, Counter(), False
    states = slot_states(earlier + bench.ledger.records)
    todo = [slot_id for slot_id in plan.slots if not states.get(slot_id, FRESH).is_done]

    def is_over() -> bool:
        return signalled.is_set() or (deadline is not None and time.monotonic() > deadline)

    with PanelProgress(plan.panel, len(todo)) as progress:
        for slot_id in todo:
            slot = plan.slots[slot_id]
            # An attempt may leave its slot in need of the one replacement, which follows at once.
            while not (state := slot_states(earlier + bench.ledger.records).get(slot_id, FRESH)).is_done:
                if is_over() or (deadline is not None and time.monotonic() + slot.estimate_seconds > deadline):
                    late = True
                    break
                progress.start(slot)
                result = run_attempt(
                    bench,
                    slot_id,
                    state.next_attempt,
                    time_limit=limit,
                    stop=is_over,
                    resume=resume and state.was_interrupted,
                    hold_after=hold_after if state.next_attempt == 1 else None,
                )
                progress.end(slot, result)
                statuses[result["status"] if result else "interrupted"] += 1
    states = slot_states(earlier + bench.ledger.records)
    left = sum(not states.get(slot_id, FRESH).is_done for slot_id in todo)
    stopped_by = "signal" if signalled.is_set() else "deadline" if late and left else None
    return RunSummary(
        panel=plan.panel,
        folder=bench.folder,
        slots=len(plan.slots),
        done_before=len(plan.slots) - len(todo),
        statuses=dict(sorted(statuses.items())),
        not_started=left,
        stopped_by=stopped_by,
        seconds=time.monotonic() - begun,
    )


@contextlib.contextmanager
def _signals() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set. The trial is watched by polling, so nothing has to be interrupted."""
    received = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield received  # only the main thread may install handlers; a library caller keeps its own
        return
    before = {n: signal.signal(n, lambda *_: received.set()) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _versions() -> dict[str, str]:
    """Installed versions, without importing anything."""
    try:
        return {name: metadata.version(name) for name in ("torch", "transformers")}
    except metadata.PackageNotFoundError as error:
        raise EnvironmentLacks(
            "model stack",
            found=f"package {error.name} is not installed",
            expected="torch, transformers and peft",
            hint="pip install -e '.[gpu]'",
        ) from None


def _refuse_capacity_on_cpu(plan: Plan) -> None:
    if plan.device_kind == "cpu" and any(s.settings.capacity_source == "emulated" for s in plan.slots.values()):
        raise UsageError(
            f"panel {plan.panel}", found="emulated capacities on the CPU", expected="no capacity: CPU trials carry none"
        )
