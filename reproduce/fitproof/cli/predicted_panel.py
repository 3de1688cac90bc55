"""A whole panel predicted: the table that `run --dry-run`, `plan --predict` and `predict --plan` print."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

import typer

from .output import emit_json, emit_rows, say
from .progress import progress_bar

MIB = 2**20
Gpu = Annotated[str, typer.Option("--gpu", metavar="PROFILE", help="The card whose libraries to model.")]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Neither read nor keep predictions made before.")]
Torch = Annotated[
    str | None,
    typer.Option("--torch", metavar="VERSION", help="torch of the measuring machine; default: the GPU profile's."),
]
Transformers = Annotated[
    str | None,
    typer.Option(
        "--transformers", metavar="VERSION", help="transformers of the measuring machine; default: as installed here."
    ),
]


def predicted(settings: Iterable, gpu: str, *, no_cache: bool) -> dict:
    """Settings -> its prediction, or why there is none; a bar on a terminal meanwhile."""
    from ..predict.batch import predict_all

    with progress_bar("simulating", "configurations") as progress:
        return predict_all(list(settings), gpu, use_cache=not no_cache, progress=progress)


def show_predicted(answers: Mapping, *, as_json: bool, ids: Mapping | None = None) -> None:
    """One row a configuration: what will fit. `ids`: settings -> configuration_id, where the machine is known."""
    if as_json:
        emit_json([_record(s, answer, (ids or {}).get(s)) for s, answer in answers.items()])
    else:
        emit_rows([_row(s, answer) for s, answer in answers.items()], as_json=False)
    refused = [(s, answer) for s, answer in answers.items() if isinstance(answer, str)]
    told = [answer for answer in answers.values() if not isinstance(answer, str)]
    labels = [a.label or ("completes" if a.completes else "runs out") for a in told]
    counts = ", ".join(f"{labels.count(name)} {name}" for name in dict.fromkeys(labels))
    say(f"simulated, not measured: {len(answers)} configurations: {counts or 'none'}")
    for s, reason in refused:
        say(f"cannot follow {s.settings_id}: {reason}")


def _row(s, answer) -> dict[str, object]:
    told = None if isinstance(answer, str) else answer
    names = ("peak_allocated_bytes", "peak_reserved_bytes", "peak_device_used_bytes", "smallest_capacity_bytes")
    bytes_of: Sequence = [getattr(told, name, None) for name in names]
    allocated, reserved, used, smallest = (None if n is None else round(n / MIB) for n in bytes_of)
    state = answer if told is None else told.label or ("completes" if told.completes else "runs out of memory")
    return {
        "model": s.model_id.split("/")[1], "workload": s.workload, "algorithm": s.algorithm, "adaptation": s.adaptation,
        "micro-batch": s.actor_micro_batch, "capacity MiB": s.capacity_mib, "answer": state, "allocated": allocated,
        "reserved": reserved, "device used": used, "smallest capacity": smallest,
        "peak stage": told and told.peak_stage, "runs out in": told and told.failure_stage,
    }  # fmt: skip


def _record(s, answer, configuration_id: str | None) -> dict[str, object]:
    from dataclasses import asdict

    head = {"configuration_id": configuration_id, "settings_id": s.settings_id, "settings": s.identity()}
    if isinstance(answer, str):
        return {**head, "refusal": answer}
    told = {name: value for name, value in asdict(answer).items() if name not in ("bound_by", "facts", "seconds")}
    return {**head, "refusal": None, **told}
