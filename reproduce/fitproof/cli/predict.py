"""The verb predict: one configuration's memory, stage by stage, without a GPU."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from .output import emit, emit_json, say, text_table

MIB = 2**20


def predict(
    sets: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting; may be repeated.")
    ] = None,
    config: Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Settings as JSON or YAML.")] = None,
    capacity: Annotated[
        str | None, typer.Option("--capacity", metavar="C", help="Shorthand for --set capacity=C: 24GiB, 24576.")
    ] = None,
    gpu: Annotated[str, typer.Option("--gpu", metavar="PROFILE", help="The card whose libraries to model.")] = "h200",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON to stdout.")] = False,
) -> None:
    """Predict peak memory per stage, the label at a capacity and the smallest capacity; no GPU.

    Runs the trial program on tensors without memory and replays its allocations through a model of the CUDA caching
    allocator. What it cannot follow is refused with exit code 3. The exit code says nothing about fitting: read label.

    \b
    Examples:
      fitproof predict --set model=Qwen3-0.6B --set workload=chat --capacity 24GiB
      fitproof predict --config settings.json --json
    """
    from ..errors import EnvironmentLacks
    from ..schema.settings import resolve
    from .settings_args import given_settings, unset_defaults

    given = given_settings([*(sets or []), *([f"capacity={capacity}"] if capacity else [])], config)
    settings = resolve(**given)
    try:
        from ..predict.prediction import predict as run
    except ImportError as error:
        raise EnvironmentLacks("predict", found=f"no module {error.name}", expected="torch, transformers and peft",
                               hint="fitproof doctor") from None  # fmt: skip
    defaults = unset_defaults(given, settings)
    say("defaults: " + " ".join(f"{name}={value}" for name, value in defaults.items()))
    found = run(settings, gpu)
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
