"""Predictions beside the published measurements: errors per stage and overall, and whether labels agree.

    python -m fitproof.predict.compare [--root DIR] [--only TEXT] [--json]

One prediction for every measured configuration of the views, at the capacity that its trials found. A trial that ran
out of memory shows what it held until then, and so does its prediction: these rows are counted apart.
"""

import argparse
from dataclasses import asdict, dataclass
from pathlib import Path

from ..cli.output import emit, emit_json, say, text_table
from ..root import release_root
from ..schema.settings import ADDED_LATER, FIELD_NAMES, Settings
from .prediction import predict


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One configuration; errors are predicted / measured - 1."""

    configuration_id: str
    name: str
    measured: str
    predicted: str
    failure_stage_agrees: bool
    allocated_error: float
    reserved_error: float
    device_used_error: float
    stage_errors: dict[str, tuple[float, float]]
    """Allocated and reserved error by stage, completed stages only."""
    seconds: float


def compare(root: Path, only: str = "") -> list[Row]:
    """A row for each configuration measured on the profiled card whose name contains `only`."""
    import pyarrow.parquet as pq

    views = {n: pq.read_table(root / "views" / f"{n}.parquet").to_pylist()
             for n in ("configurations", "trials", "stage_peaks")}  # fmt: skip
    rows = []
    for c in views["configurations"]:
        trials = [t for t in views["trials"] if t["configuration_id"] == c["configuration_id"]]
        capacity = f"{c['kv_reservation'] or '-'} of {c['capacity_mib']}"
        name = f"{c['model_id'].split('/')[1]} {c['workload']} {c['actor_micro_batch']} {capacity}"
        if c["device"] != "NVIDIA H200" or not trials or only not in name:
            continue
        say(name)
        rows.append(_row(c, name, trials, views["stage_peaks"]))
    return rows


def _row(c: dict, name: str, trials: list[dict], stage_peaks: list[dict]) -> Row:
    given = {f: c.get(f, ADDED_LATER.get(f)) for f in FIELD_NAMES}  # views may be older than a setting
    if c["capacity_source"] == "device":
        given["capacity_mib"] = None
    found = predict(Settings(**given), capacity_bytes=trials[0]["effective_capacity_bytes"], search=False)
    states = {t["state"] for t in trials}
    failed = "memory_failure" in states
    measured = "memory_failure" if failed else "above_margin" if "above_margin" in states else "within_margin"
    ids = {t["trial_id"] for t in trials}
    stages = {}
    for s in found.stages:
        seen = [p for p in stage_peaks if p["trial_id"] in ids and p["stage"] == s.stage]
        if seen and s.is_complete and all(p["coverage"] == "completed" for p in seen):
            stages[s.stage] = tuple(
                getattr(s, key) / max(p[key] for p in seen) - 1
                for key in ("peak_allocated_bytes", "peak_reserved_bytes")
            )

    def error(key: str) -> float:
        return getattr(found, key) / max(t[key] for t in trials) - 1

    return Row(
        configuration_id=c["configuration_id"],
        name=name,
        measured=measured,
        predicted=found.label or ("within_margin" if found.completes else "memory_failure"),
        failure_stage_agrees={t["failure_stage"] for t in trials} == {found.failure_stage},
        allocated_error=error("peak_allocated_bytes"),
        reserved_error=error("peak_reserved_bytes"),
        device_used_error=error("peak_device_used_bytes"),
        stage_errors=stages,
        seconds=found.seconds,
    )


def summary(rows: list[Row]) -> list[list[object]]:
    """Lines of mean and worst absolute error in percent: stages, then whole trials, completed and failed."""
    lines = []
    for stage in dict.fromkeys(s for r in rows for s in r.stage_errors):
        pairs = [r.stage_errors[stage] for r in rows if stage in r.stage_errors]
        lines.append(
            [stage, len(pairs), *_percent([p[0] for p in pairs]), *_percent([p[1] for p in pairs]), None, None]
        )
    for name, some in (
        ("completed trials", [r for r in rows if r.measured != "memory_failure"]),
        ("memory failures, until then", [r for r in rows if r.measured == "memory_failure"]),
    ):
        if some:
            kinds = ([r.allocated_error for r in some], [r.reserved_error for r in some],
                     [r.device_used_error for r in some])  # fmt: skip
            lines.append([name, len(some), *(value for kind in kinds for value in _percent(kind))])
    return lines


def _percent(errors: list[float]) -> tuple[float, float]:
    return 100 * sum(map(abs, errors)) / len(errors), 100 * max(map(abs, errors))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m fitproof.predict.compare", description=__doc__.split("\n")[0])
    parser.add_argument("--root", type=Path)
    parser.add_argument("--only", default="", help="part of a configuration's name")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = compare(release_root(arguments.root), arguments.only)
    if arguments.json:
        emit_json([asdict(row) for row in rows])
        return
    emit(text_table(["stage", "rows", "allocated mean %", "worst %", "reserved mean %", "worst %", "device used mean %",
                     "worst %"], summary(rows)))  # fmt: skip
    agree = sum(r.measured == r.predicted for r in rows)
    stages = sum(r.failure_stage_agrees for r in rows)
    emit(f"labels agree: {agree} of {len(rows)}; stage of the failure, or none: {stages} of {len(rows)}")
    seconds = sorted(r.seconds for r in rows)
    middle, most = seconds[len(seconds) // 2], seconds[-1]
    emit(f"seconds, without the search for the smallest capacity: median {middle:.1f}, most {most:.1f}")
    for r in rows:
        if r.measured != r.predicted or abs(r.reserved_error) > 1e-3 or abs(r.allocated_error) > 1e-3:
            emit(f"miss: {r.name}: measured {r.measured}, predicted {r.predicted}; allocated "
                 f"{100 * r.allocated_error:+.3f} %, reserved {100 * r.reserved_error:+.3f} %")  # fmt: skip


if __name__ == "__main__":
    main()
