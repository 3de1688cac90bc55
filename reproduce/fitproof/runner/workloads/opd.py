"""On-policy distillation as a developer runs it: through, then killed after an update and resumed, then compared.

Three trials, each in a fresh process, all forked from one server that has imported the stack. They are attempts of two
panels of one slot: `<name>` holds the uninterrupted run, `<name>_resumed` the interrupted attempt and the one that goes
on. What attempts cannot hold (which of them belong together, what the comparison found, how long it all took) is
`<name>/workload-fitproof.json`.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ...errors import CheckFailed, EnvironmentLacks, UsageError
from ...schema.records import CHECKPOINTS, SCHEMA_VERSION, WORKLOAD_FILE
from ...schema.settings import Settings
from ..attempt import attempt_folder
from ..files import checkpoint_folder, utc_now, write_json
from ..panels.estimate import estimate_seconds
from ..plan import Panel, Plan, Slot, freeze
from ..spawn import Spawner
from ..supervisor import make_spawner, run_panel
from .comparison import Comparison, compare
from .exported import export, load_problem
from .figures import figures, read_trace
from .pairs import pair_named, workload_settings

SEED = 0
ENGINE = "fitproof"


class Stopped(Exception):
    """A signal ended the workload before it was done; what was measured stays in the ledger."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """`record`: the workload's record as written. `figures`: rates, times and sizes under the names of the view.
    `adapter`: the exported adapter's folder."""

    record: dict
    figures: dict[str, object]
    panel_folder: Path
    adapter: Path
    is_exact: bool
    is_adapter_loadable: bool


def run_opd(
    pair: str, out: Path, *, overrides: Mapping[str, object] | None = None, campaign: str = "first", begun_ns: int
) -> Outcome:
    """Run the workload of `pair` into the run directory `out`.

    `begun_ns`: when the first process started (CLOCK_MONOTONIC); recovery_pair_ns counts from there to the end of the
    comparison. Raises UsageError (unknown pair, impossible settings, an earlier run in `out`), EnvironmentLacks,
    Stopped on a signal, and CheckFailed where a run did not complete: its attempts then say why, and no record is
    written.
    """
    settings = workload_settings(pair, overrides)
    name = panel_name(pair, settings)
    through, resumed = (
        _plan(panel, settings, pair_named(pair).device_kind, why)
        for panel, why in ((name, "uninterrupted"), (f"{name}_resumed", "interrupted and resumed"))
    )
    _refuse_earlier(out, through, resumed)
    spawner = make_spawner(pair_named(pair).device_kind)
    try:
        spawner.start_server()
        import_ns = time.monotonic_ns() - begun_ns
        _run(through, out, campaign, spawner, None)
        _run(resumed, out, campaign, spawner, settings.checkpoint_every)
        whole = _attempts(out, through)[0]
        cut, last = _attempts(out, resumed)
        comparison, run_bytes = _compare(whole, cut, last, settings), _bytes_below(whole, checkpoint_folder(whole))
        adapter = out / CHECKPOINTS / name / "adapter"
        adapter_bytes = export(_last_checkpoint(whole, settings), adapter, settings)
        problem = load_problem(adapter, spawner)
        recovery_ns = time.monotonic_ns() - begun_ns
    finally:
        spawner.close()
    record = {
        "schema_version": SCHEMA_VERSION,
        "workload": "opd",
        "pair": pair,
        "engine": ENGINE,
        "run": _run_name(campaign, overrides),
        "device": json.loads((whole / "trial.json").read_text(encoding="utf-8"))["device"],
        "created_at": utc_now(),
        "import_ns": import_ns,
        "recovery_pair_ns": recovery_ns,
        "adapter_bytes": adapter_bytes,
        "run_bytes": run_bytes,
        "is_trajectory_equal": comparison.is_trajectory_equal,
        "is_adapter_equal": comparison.is_adapter_equal,
        "is_optimizer_equal": comparison.is_optimizer_equal,
        "is_state_equal": comparison.is_state_equal,
        "is_adapter_loadable": problem is None,
        "differences": comparison.differences + ([] if problem is None else [f"plain peft: {problem}"]),
        "attempts": {
            "campaign": campaign,
            "panel": name,
            "slot_id": whole.parent.name,
            "attempt": 1,
            "resumed_panel": resumed.panel,
            "resumed_slot_id": last.parent.name,
            "interrupted_attempt": 1,
            "resumed_attempt": 2,
        },
        "figures": None,
    }
    write_json(out / name / WORKLOAD_FILE.format(ENGINE), record)
    return Outcome(
        record=record,
        figures=_shown(record, figures(read_trace(whole), settings), read_trace(last).facts("resume_load_ns")[0]),
        panel_folder=out / name,
        adapter=adapter,
        is_exact=comparison.is_exact,
        is_adapter_loadable=problem is None,
    )


def panel_name(pair: str, settings: Settings) -> str:
    """`opd_<pair>`; with settings of one's own their id is in it, for a panel has one frozen plan."""
    own = "" if settings == workload_settings(pair) else f"_{settings.settings_id[:8]}"
    return f"opd_{pair}{own}"


def _run_name(campaign: str, overrides: Mapping[str, object] | None) -> str:
    return " ".join([campaign, *(f"{key}={value}" for key, value in sorted((overrides or {}).items()))])


def _plan(name: str, settings: Settings, device_kind: str, why: str) -> Plan:
    slot = Slot(settings=settings, seed=SEED, estimate_seconds=estimate_seconds(settings, device_kind=device_kind))
    reason = f"The OPD developer workload, {why}: exact recovery and speed."
    return freeze(Panel(name=name, reason=reason, device_kind=device_kind, slots=(slot,)))


def _refuse_earlier(out: Path, *plans: Plan) -> None:
    """A workload is timed from its first process to its end: it never goes on with what an earlier call left."""
    for plan in plans:
        for folder in (out / plan.panel, out / CHECKPOINTS / plan.panel):
            # Without a plan nothing was started: the device was not there.
            if folder.exists() and (folder.parent != out or (folder / "plan.json").exists()):
                raise UsageError(
                    f"run directory {out}",
                    found=f"{folder}, of an earlier run",
                    expected="a new directory",
                    hint="choose another --out",
                )


def _run(plan: Plan, out: Path, campaign: str, spawner: Spawner, hold_after: int | None) -> None:
    summary = run_panel(plan, out, campaign=campaign, spawner=spawner, resume=True, hold_after=hold_after)
    if summary.stopped_by is not None:
        raise Stopped
    if summary.statuses.get("completed") == 1 and summary.is_complete:
        return
    for attempt in _attempts(out, plan)[::-1]:
        if (attempt / "result.json").exists():
            result = json.loads((attempt / "result.json").read_text(encoding="utf-8"))
            types = [t for e in read_trace(attempt).events if e["event"] == "failure" for t in e["exception_types"]]
            is_lacking = any(t.endswith("EnvironmentLacks") for t in types)
            raise (EnvironmentLacks if is_lacking else CheckFailed)(
                f"workload opd, panel {plan.panel}",
                found=f"{result['status']} ({result['failure_class']} in {result['failure_stage']}): "
                f"{result['evidence']}",
                expected="a completed run",
                hint=f"less {attempt / 'stderr.log'}",
            )
    raise CheckFailed(f"workload opd, panel {plan.panel}", found="no attempt with a result", expected="a completed run")


def _attempts(out: Path, plan: Plan) -> list[Path]:
    """Folders of the attempts of the plan's one slot, in order."""
    [slot_id] = plan.slots
    folder = out / plan.panel
    numbers = sorted(int(path.name.rpartition("-")[2]) for path in (folder / slot_id).glob("attempt-*"))
    return [attempt_folder(folder, slot_id, number) for number in numbers]


def _last_checkpoint(attempt: Path, settings: Settings) -> Path:
    return checkpoint_folder(attempt) / f"step-{settings.total_training_steps:08d}"


def _compare(whole: Path, cut: Path, last: Path, settings: Settings) -> Comparison:
    traces = [read_trace(cut), read_trace(last)]
    if traces[1].facts("resumed_from_step") != [settings.checkpoint_every]:
        raise CheckFailed(
            f"workload opd, {last}", found=f"resumed from {traces[1].facts('resumed_from_step')}",
            expected=f"resumed from step {settings.checkpoint_every}", hint=f"less {last / 'events.jsonl'}",
        )  # fmt: skip
    others = [trace.rollouts() for trace in traces]
    checkpoints = (_last_checkpoint(attempt, settings) for attempt in (whole, last))
    return compare(*checkpoints, read_trace(whole).rollouts(), others)


def _bytes_below(*folders: Path) -> int:
    return sum(path.stat().st_size for folder in folders for path in folder.rglob("*") if path.is_file())


def _shown(record: dict, measured: Mapping[str, object], resume_load_ns: int) -> dict[str, object]:
    """The figures of the table, in its order."""
    return {
        "import_seconds": record["import_ns"] / 1e9,
        **measured,
        "adapter_bytes": record["adapter_bytes"],
        "run_bytes": record["run_bytes"],
        "resume_load_seconds": resume_load_ns / 1e9,
        "recovery_pair_seconds": record["recovery_pair_ns"] / 1e9,
    }
