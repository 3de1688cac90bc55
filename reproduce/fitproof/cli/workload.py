"""The verb workload: a developer workload run through, interrupted, resumed and compared."""

from pathlib import Path
from typing import Annotated

import typer

from .output import emit, emit_json, say, text_table

_CHECKS = {
    "is_trajectory_equal": "trajectories equal",
    "is_adapter_equal": "adapter tensors byte-identical",
    "is_optimizer_equal": "optimizer tensors byte-identical",
    "is_state_equal": "training state equal",
    "is_adapter_loadable": "adapter loads in plain peft",
}


def workload(
    name: Annotated[str, typer.Argument(metavar="WORKLOAD", help="opd: on-policy distillation.")],
    pair: Annotated[
        str, typer.Option("--pair", metavar="PAIR", help="Student and teacher: qwen3, smollm2; tiny runs on a CPU.")
    ] = "qwen3",
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="A run directory without an earlier one.")] = Path(
        "runs"
    ),
    sets: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Another setting; may be repeated.")
    ] = None,
    campaign: Annotated[
        str, typer.Option("--campaign", metavar="NAME", help="Name of the measuring campaign.")
    ] = "first",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON to stdout.")] = False,
) -> None:
    """Run a developer workload through, then interrupted and resumed, and compare the two.

    Three fresh processes: one runs through, one is killed after half of its updates, one resumes it from its
    checkpoint. Rollouts, adapter, optimizer and training state must be equal to the byte, and plain peft must load the
    exported adapter: otherwise exit code 1, with a line for each difference. Prints speed, memory, sizes and recovery
    time; the raw records below DIR are what `fitproof pack` takes.

    \b
    Examples:
      fitproof workload opd --pair qwen3 --out runs
      fitproof workload opd --pair qwen3 --set actor_micro_batch=4 --out runs-batch4 --json
    """
    from ..errors import UsageError
    from ..runner.processes import process_start_ns
    from ..runner.workloads.opd import Stopped, run_opd
    from .settings_args import given_settings

    begun_ns = process_start_ns()
    if name != "opd":
        raise UsageError(f"workload {name!r}", found="unknown", expected="opd", hint="fitproof workload opd")
    try:
        done = run_opd(pair, out, overrides=given_settings(sets or []), campaign=campaign, begun_ns=begun_ns)
    except Stopped:
        say(f"stopped by a signal; what was measured stands in {out}")
        raise typer.Exit(130) from None
    checks = {label: done.record[key] for key, label in _CHECKS.items()}
    if as_json:
        emit_json({"record": done.record, "figures": done.figures, "adapter": str(done.adapter)})
    else:
        emit(text_table(["measure", "value"], [[key, _shown(key, value)] for key, value in done.figures.items()]))
        emit("")
        emit(text_table(["check", "holds"], list(checks.items())))
    for line in done.record["differences"]:
        say(line)
    say(f"adapter: {done.adapter}")
    say(f"next: fitproof pack {out} -o releases/DATE_DEVICE_opd.tar.zst")
    if not all(checks.values()):
        raise typer.Exit(1)


def _shown(key: str, value: float | int) -> str:
    """One column holds seconds, rates and bytes, so each is formatted by itself."""
    if key.endswith("_bytes"):
        return f"{value:,} ({value / 2**20:,.1f} MiB)"
    return f"{value:,.3f}" if isinstance(value, float) else f"{value:,}"
