"""The verb predict: one configuration's memory, stage by stage, without a GPU."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from .output import emit, emit_json, say, text_table
from .predicted_panel import Gpu, NoCache, Torch, Transformers, predicted, show_predicted

MIB = 2**20


def predict(
    sets: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting; may be repeated.")
    ] = None,
    config: Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Settings as JSON or YAML.")] = None,
    capacity: Annotated[
        str | None, typer.Option("--capacity", metavar="C", help="Shorthand for --set capacity=C: 24GiB, 24576.")
    ] = None,
    plans: Annotated[
        list[str] | None,
        typer.Option("--plan", metavar="PLAN", help="A panel, plan file or archive; may be repeated: all it holds."),
    ] = None,
    freeze: Annotated[
        Path | None, typer.Option("--freeze", metavar="FOLDER", help="With --plan: write FOLDER/predictions.jsonl.")
    ] = None,
    gpu: Gpu = "h200",
    torch: Torch = None,
    transformers: Transformers = None,
    no_cache: NoCache = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON to stdout.")] = False,
) -> None:
    """Predict peak memory per stage, the label at a capacity and the smallest capacity; no GPU.

    Runs the trial program on tensors without memory and replays its allocations through a model of the CUDA caching
    allocator. What it cannot follow is refused with exit code 3. The exit code says nothing about fitting: read label.

    With --plan every configuration of a panel, plan file or archive is predicted; what cannot be followed is listed.
    --freeze writes them as evidence to pack. To freeze them before the trials of a plan, see `fitproof plan --predict`.

    \b
    Examples:
      fitproof predict --set model=Qwen3-0.6B --set workload=chat --capacity 24GiB
      fitproof predict --config settings.json --json
      fitproof predict --plan plan.json
      fitproof predict --plan releases/2026-12-01_h200_grid-a.tar.zst --freeze predicted/grid
    """
    from ..errors import EnvironmentLacks, UsageError
    from ..schema.settings import resolve
    from .settings_args import given_settings, unset_defaults

    if plans:
        if sets or config or capacity:
            raise UsageError("fitproof predict --plan", found="settings beside it", expected="one or the other")
        _predict_plans(plans, freeze, gpu, torch, transformers, no_cache=no_cache, as_json=as_json)
        return
    if freeze:
        raise UsageError("fitproof predict --freeze", found="no --plan", expected="--plan PLAN beside it")
    given = given_settings([*(sets or []), *([f"capacity={capacity}"] if capacity else [])], config)
    settings = resolve(**given)
    defaults = unset_defaults(given, settings)
    say("defaults: " + " ".join(f"{name}={value}" for name, value in defaults.items()))
    found = predicted([settings], gpu, no_cache=no_cache)[settings]
    if isinstance(found, str):
        raise EnvironmentLacks("fitproof predict", found=found, expected="what a dry run can follow",
                               hint="fitproof run  # measure it on the card")  # fmt: skip
    if as_json:
        emit_json({"settings_id": settings.settings_id, **asdict(found)})
        return
    rows = [
        [s.stage, *(n / MIB for n in (s.peak_allocated_bytes, s.peak_reserved_bytes, s.peak_device_used_bytes)),
         "yes" if s.is_complete else "no"]
        for s in found.stages
    ]  # fmt: skip
    emit(text_table(["stage", "allocated MiB", "reserved MiB", "device used MiB", "completes"], rows))
    emit("")
    emit(text_table(["answer", "value"], _answers(found)))
    emit("")
    emit(text_table(["at the peak", "made in", "MiB", "tensors"],
                    [[h.operation, h.stage, h.nbytes / MIB, h.count] for h in found.bound_by]))  # fmt: skip
    say(f"simulated, not measured; profile {found.profile}; {found.seconds:.1f} s")


def _predict_plans(
    plans: list[str],
    folder: Path | None,
    gpu: str,
    torch: str | None,
    transformers: str | None,
    *,
    no_cache: bool,
    as_json: bool,
) -> None:
    """Predict all that plans, panels and archives hold, and freeze it if there is a folder."""
    from ..predict.cases import archived, machine, planned
    from ..predict.freeze import freeze, refuse_present

    if folder is not None:
        refuse_present(folder)
    archives = [Path(name) for name in plans if name.endswith(".tar.zst")]
    cases = archived(archives, gpu) if archives else []
    if len(archives) < len(plans):
        on = machine(gpu, torch, transformers)
        for name in (n for n in plans if not n.endswith(".tar.zst")):
            cases += planned(_slots(name), on)
    cases = list(dict.fromkeys(cases))
    answers = predicted([case.settings for case in cases], gpu, no_cache=no_cache)
    show_predicted(answers, as_json=as_json, ids={case.settings: case.configuration_id for case in cases})
    if folder is not None:
        path, digest = freeze(cases, answers, folder, gpu)
        say(f"wrote {path}\nSHA-256 {digest}")


def _slots(name: str) -> list:
    """The slots of a plan file, whatever code made it, or of a panel that any GPU can run."""
    from ..runner.panels import PANELS
    from ..runner.plan import load_plan

    is_panel = name in PANELS and not Path(name).is_file()
    return list(PANELS[name]().slots if is_panel else load_plan(Path(name), check_code=False).slots.values())


def _answers(found) -> list[list[object]]:
    low, high = (n / MIB for n in found.interval["peak_device_used_bytes"])
    rows = [
        ["capacity", f"{found.capacity_bytes / MIB:,.0f} MiB"],
        ["label", found.label or ("completes" if found.completes else "runs out of memory") + "; no label below 4 GiB"],
        ["peak allocated", f"{found.peak_allocated_bytes / MIB:,.1f} MiB"],
        ["peak reserved", f"{found.peak_reserved_bytes / MIB:,.1f} MiB"],
        ["peak device used", f"{found.peak_device_used_bytes / MIB:,.1f} MiB ({low:,.1f} to {high:,.1f})"],
    ]
    if found.smallest_capacity_bytes is not None:
        rows.append(["smallest capacity", f"{found.smallest_capacity_bytes / MIB:,.1f} MiB"])
        rows.append(["without allocator retries", f"{found.smallest_without_retries_bytes / MIB:,.1f} MiB"])
    if found.failure is not None:
        rows.append(["runs out in", f"{found.failure_stage}: {found.failure}"])
    return rows
