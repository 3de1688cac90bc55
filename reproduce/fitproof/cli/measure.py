"""Verbs on this machine and on raw evidence: doctor, plan, run, pack, diagnose. No verb here needs duckdb."""

import inspect
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ..schema.records import PREDICTIONS
from .output import emit, emit_json, emit_rows, say
from .predicted_panel import Gpu, NoCache, Torch, Transformers, predicted, show_predicted
from .progress import progress_bar

Json = Annotated[bool, typer.Option("--json", help="Print JSON to stdout.")]


def doctor(as_json: Json = False) -> None:
    """Say what this machine can measure, and what fixes the rest.

    Devices, memory by all four meanings, versions, what will work, and the command for whatever is missing. Exit code 3
    when something is missing that a verb needs; a GPU and the extras marked optional are not.

    \b
    Examples:
      fitproof doctor
      fitproof doctor --json
    """
    from ..runner.doctor import examine

    rows = [asdict(row) for row in examine()]
    emit_rows(rows, as_json=as_json)
    if any(row["state"] == "missing" for row in rows):
        raise typer.Exit(3)


Device = Annotated[
    str | None,
    typer.Option(
        "--device", metavar="KIND", help="cuda, rocm or cpu, for panels that any device can run; default cuda."
    ),
]


def plan(
    panel: Annotated[str, typer.Argument(help="Name of a panel, such as quick; a wrong name lists them all.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the frozen plan.")
    ] = None,
    device: Device = None,
    predict: Annotated[
        bool, typer.Option("--predict", help="Freeze predictions first, beside the plan, which names their digest.")
    ] = False,
    gpu: Gpu = "h200",
    torch: Torch = None,
    transformers: Transformers = None,
    no_cache: NoCache = False,
    as_json: Json = False,
) -> None:
    """Freeze a panel: slots, seeds, settings, estimates, digest.

    Without -o it is only shown. A plan carries the digest of the code that made it; other code refuses to run it.

    --predict simulates every configuration and writes predictions.jsonl into the plan's folder before the plan itself:
    the plan names their digest and the trials name the plan, so nobody has to believe a date. What the dry run cannot
    follow is frozen with its reason. `fitproof run` keeps both files with the trials.

    \b
    Examples:
      fitproof plan quick -o plan.json
      fitproof plan quick --device rocm --json
      fitproof plan grid --predict --torch 2.11 --transformers 5.17 -o frozen/grid/plan.json
    """
    from ..errors import UsageError
    from ..runner.plan import freeze, refuse_output, save_plan

    made = _panel(panel, device)
    if predict:
        if output is None or made.device_kind != "cuda":
            found = "no -o FILE" if output is None else f"device kind {made.device_kind}"
            raise UsageError("fitproof plan --predict", found=found, expected="a CUDA panel and -o FOLDER/plan.json")
        refuse_output(output)
        digest = _freeze_predictions(made, output.parent, gpu, torch, transformers, no_cache=no_cache)
        frozen = freeze(made, predictions_digest=digest)
    else:
        frozen = freeze(made)
    if output is not None:
        save_plan(frozen, output)
        say(f"wrote {output}")
    if as_json:
        emit_json(frozen.record())
    else:
        emit_rows([_slot_row(slot_id, slot) for slot_id, slot in frozen.slots.items()], as_json=False)
    say(f"panel {frozen.panel}: {len(frozen.slots)} slots, about {frozen.estimate_seconds:,} device seconds")
    say(f"digest {frozen.digest}")


def _slot_row(slot_id: str, slot) -> dict[str, object]:
    names = ("model_id", "workload", "algorithm", "adaptation", "actor_micro_batch", "capacity_mib")
    settings = {name: getattr(slot.settings, name) for name in names}
    return {"slot_id": slot_id, **settings, "seed": slot.seed, "estimate_seconds": slot.estimate_seconds}


def _freeze_predictions(made, folder: Path, gpu: str, torch: str | None, transformers: str | None, *, no_cache: bool):
    """The digest of the predictions frozen for the panel, in `folder`. Without a possible plan none are."""
    from ..predict.cases import machine, planned
    from ..predict.freeze import freeze as freeze_predictions
    from ..predict.freeze import refuse_present
    from ..runner.plan import freeze

    freeze(made)
    refuse_present(folder)
    cases = planned(made.slots, machine(gpu, torch, transformers))
    answers = predicted([case.settings for case in cases], gpu, no_cache=no_cache)
    path, digest = freeze_predictions(cases, answers, folder, gpu)
    refused = sum(isinstance(answer, str) for answer in answers.values())
    on = cases[0].machine
    say(f"wrote {path}: {len(cases)} configurations on {on.device}, torch {on.torch}, transformers {on.transformers}"
        + (f"; {refused} of them refused" if refused else ""))  # fmt: skip
    return digest


def _panel(name: str, device: str | None):
    """The named panel. Raises UsageError for an unknown panel or a device kind it is not made for."""
    from ..errors import UsageError
    from ..runner.panels import PANELS

    if name not in PANELS:
        raise UsageError(f"panel {name!r}", found="unknown", expected="one of: " + ", ".join(PANELS))
    kinds = ("cuda", "rocm", "cpu")
    if device is not None and device not in kinds:
        raise UsageError(f"--device {device}", found="unknown", expected=" or ".join(kinds))
    make = PANELS[name]
    is_open = "device_kind" in inspect.signature(make).parameters
    made = make(device_kind=device) if is_open and device else make()
    if device not in (None, made.device_kind):
        raise UsageError(f"panel {name}", found=f"--device {device}", expected=f"{made.device_kind}: it has no other")
    return made


def run(
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="A file made by `fitproof plan`, or a panel's name.")],
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Run directory; a second run goes on there.")
    ] = Path("runs"),
    done: Annotated[
        list[Path] | None, typer.Option("--done", metavar="ARCHIVE", help="Skip what it recorded; may be repeated.")
    ] = None,
    deadline: Annotated[
        float | None, typer.Option("--deadline", metavar="SECONDS", min=0, help="Start no slot that would end later.")
    ] = None,
    campaign: Annotated[
        str, typer.Option("--campaign", metavar="NAME", help="Name of the measuring campaign.")
    ] = "first",
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue interrupted slots from their last checkpoint.")
    ] = False,
    device: Device = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Measure nothing: simulate every configuration and print what will fit.")
    ] = False,
    gpu: Gpu = "h200",
    no_cache: NoCache = False,
    as_json: Json = False,
) -> None:
    """Measure the slots of a plan, each in a fresh process.

    Killed at any moment, the same command goes on with the slots that have no result. An interrupted slot starts anew;
    with --resume it continues from its last checkpoint, if its settings have checkpoint_every. A memory failure is a
    result and is never retried. Slots left out by the deadline are counted in the summary and make no failure of this
    command. Interrupted from the keyboard: exit code 130.

    \b
    Examples:
      fitproof run quick
      fitproof run quick --dry-run
      fitproof run plan.json --out runs --deadline 540
      fitproof run plan.json --out runs --resume
      fitproof run plan.json --done releases/2026-12-01_h200_grid.tar.zst
    """
    from ..runner.panels import PANELS
    from ..runner.plan import freeze, load_plan

    is_panel = plan in PANELS and not Path(plan).is_file()
    frozen = freeze(_panel(plan, device)) if is_panel else load_plan(Path(plan), check_code=not dry_run)
    if dry_run:
        settings = [slot.settings for slot in frozen.slots.values()]
        show_predicted(predicted(settings, gpu, no_cache=no_cache), as_json=as_json)
        return
    from ..runner.supervisor import run_panel

    summary = run_panel(
        frozen,
        out,
        predictions=Path(plan).parent / PREDICTIONS,
        done_archives=done or (),
        deadline_seconds=deadline,
        campaign=campaign,
        resume=resume,
    )
    if as_json:
        emit_json({**asdict(summary), "folder": str(summary.folder), "is_complete": summary.is_complete})
    else:
        counts = {"already done": summary.done_before, **summary.statuses, "not started": summary.not_started}
        emit_rows([{"slots": name, "count": count} for name, count in counts.items()], as_json=False)
    say(f"{summary.folder}: {summary.slots} slots, {summary.seconds:.0f} s")
    if summary.is_complete:
        say(f"next: fitproof pack {out} -o releases/DATE_DEVICE_{frozen.panel}.tar.zst")
    else:
        say(f"{summary.not_started} slots left, stopped by {summary.stopped_by}; the same command goes on")
    if summary.stopped_by == "signal":
        raise typer.Exit(130)


def pack(
    directories: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Run directories of one or more panels.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="ARCHIVE", help="DATE_DEVICE_SUBJECT.tar.zst")],
    as_json: Json = False,
) -> None:
    """Pack run directories into one archive and its sidecar.

    The same folders give the same bytes. An archive is write-once: an existing one is never changed.

    \b
    Example:
      fitproof pack runs -o releases/2026-12-01_h200_quick.tar.zst
    """
    from ..evidence.pack import pack as write

    with progress_bar("packing", "bytes") as progress:
        packed = write(directories, output, progress=progress)
    for note in packed.notes:
        say(f"note: {note}")
    if as_json:
        emit_json({**asdict(packed), "path": str(packed.path)})
    else:
        emit(f"{packed.sha256}  {packed.path}")
        panels = ", ".join(packed.panels) or "no panel"
        say(f"{packed.members} members, {packed.attempts} attempts of {panels}, {packed.bytes:,} bytes")


def diagnose(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="Log file of any training stack; - reads stdin.")],
    exit_code: Annotated[
        int | None,
        typer.Option("--exit-code", metavar="N", help="Exit code of the run; negative or 128 + n: signal n."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Say what ended a run: failure class, stage and evidence line.

    Reads logs of any training stack. No class (null, -) means that the log shows no failure.

    \b
    Classes: device_memory, host_memory, timeout, device_fault, dependency, data, harness, unknown.
    Examples:
      fitproof diagnose train.log --exit-code 1
      kubectl logs trainer-0 | fitproof diagnose - --json
    """
    from ..errors import UsageError
    from ..runner.diagnosis import decode_log, diagnose_text

    try:
        data = sys.stdin.buffer.read() if str(log) == "-" else log.read_bytes()
    except OSError as error:
        raise UsageError(
            f"log {log}",
            found=error.strerror or str(error),
            expected="a readable file, or - for stdin",
            hint="fitproof diagnose LOG  # on an attempt of fitproof run: its stderr.log",
        ) from None
    found = diagnose_text(decode_log(data), exit_code)
    answer = {"failure_class": found.failure_class, "stage": found.stage, "evidence": found.evidence}
    if as_json:
        emit_json(answer)
    else:
        emit_rows([answer], as_json=False)
