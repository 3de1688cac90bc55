"""A small synthetic release: a few views of every shape, written with pyarrow from the schema's own column types."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fitproof.schema.view import Column, ForeignKey, View

ARROW = {
    "VARCHAR": pa.string(),
    "BIGINT": pa.int64(),
    "INTEGER": pa.int32(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "TIMESTAMP": pa.timestamp("us"),
}


def column(name: str, kind: str = "VARCHAR", unit: str = "", null: str = "never") -> Column:
    return Column(name, kind, unit, null, f"Meaning of {name}.")


CONFIGURATIONS = View(
    name="configurations",
    split="measured",
    grain="configuration",
    meaning="Every configuration.",
    key=("configuration_id",),
    columns=(
        column("configuration_id"),
        column("panel"),
        column("model_id"),
        column("model_family"),
        column("workload"),
        column("algorithm"),
        column("adaptation"),
        column("device"),
        column("capacity_mib", "BIGINT", "MiB", "on a CPU"),
        column("capacity_source", null="on a CPU"),
        column("actor_micro_batch", "INTEGER", "sequences"),
        column("label", null="where no label applies"),
        column("eligible_trials", "BIGINT", "count"),
        column("is_within_5_percent", "BOOLEAN", null="without a capacity"),
        column("max_completed_peak_mib", "DOUBLE", "MiB", "no completed trial"),
        column("first_started_at", "TIMESTAMP", null="never started"),
        column("critic_micro_batch", "INTEGER", "sequences", "algorithm is not ppo"),
        column("teacher_id", null="algorithm is not opd"),
        column("kv_gap_seconds", "DOUBLE", "seconds", "always here"),
        column("is_odd", "BOOLEAN", null="always here"),
        column("ended_at", "TIMESTAMP", null="always here"),
    ),
)
TRIALS = View(
    name="trials",
    split="measured",
    grain="eligible trial",
    meaning="Every eligible trial.",
    key=("trial_id",),
    columns=(
        column("trial_id"),
        column("configuration_id"),
        column("device"),
        column("state"),
        column("peak_bytes", "BIGINT", "bytes", "x"),
    ),
    foreign_keys=(ForeignKey(("configuration_id",), "configurations", ("configuration_id",)),),
)
ATTEMPTS = View(
    name="attempts",
    split="recorded",
    grain="attempt",
    meaning="The ledger.",
    key=("attempt_id",),
    columns=(
        column("attempt_id"),
        column("device"),
        column("panel"),
        column("slot_id"),
        column("status"),
        column("failure_class", null="nothing failed"),
        column("reason", null="eligible"),
    ),
)
PANEL_SLOTS = View(
    name="panel_slots",
    split="recorded",
    grain="planned slot",
    meaning="The plan.",
    key=("panel", "slot_id"),
    columns=(column("panel"), column("slot_id"), column("state")),
)
SAMPLES = View(
    name="memory_samples",
    split="measured",
    grain="thinned sample",
    meaning="Samples.",
    key=("trial_id", "t_ns"),
    columns=(column("trial_id"), column("t_ns", "BIGINT", "ns"), column("process_used_bytes", "BIGINT", "bytes", "x")),
    is_per_archive=True,
)
FAILURES = View(  # without rows: never declared
    name="failures",
    split="measured",
    grain="memory failure",
    meaning="Failures.",
    key=("trial_id",),
    columns=(column("trial_id"), column("requested_bytes", "BIGINT", "bytes", "not said")),
)
VIEWS = (CONFIGURATIONS, TRIALS, ATTEMPTS, PANEL_SLOTS, SAMPLES, FAILURES)

ROWS = {
    "configurations": [
        dict(configuration_id=f"c{i}", panel="grid", model_id="a/b|c", model_family="f", workload="short",
             algorithm="grpo", adaptation="lora", device="Card", capacity_mib=8192, capacity_source="emulated",
             eligible_trials=1, actor_micro_batch=size, label=label, is_within_5_percent=True,
             max_completed_peak_mib=12.5)
        for i, (size, label) in enumerate([(1, "within_margin"), (2, "within_margin"), (4, "memory_failure")])
    ],
    "trials": [
        dict(trial_id=f"t{i}", configuration_id=f"c{i}", device="Card", state=s, peak_bytes=p)
        for i, (s, p) in enumerate([("within_margin", 5), ("within_margin", 7), ("memory_failure", None)])
    ],
    "attempts": [
        dict(device="Card", panel="grid", attempt_id="a0", slot_id="s0", status="completed"),
        dict(device="Card", panel="grid", attempt_id="a1", slot_id="s1", status="completed"),
        dict(device="Card", panel="grid", attempt_id="a2", slot_id="s2", status="memory_failure",
             failure_class="device_memory"),
        dict(device="Card", panel="grid", attempt_id="a3", slot_id="s3", status="ineligible", failure_class="timeout",
             reason="over 540 s"),
    ],
    "panel_slots": [
        dict(panel="grid", slot_id=f"s{i}", state=s)
        for i, s in enumerate(["completed", "completed", "failed", "ineligible", "not started"])
    ],
    "failures": [],
}  # fmt: skip
SAMPLE_FILES = {"one": [dict(trial_id="t0", t_ns=1), dict(trial_id="t0", t_ns=2)], "two": [dict(trial_id="t1", t_ns=1)]}


def write(view: View, rows: list[dict], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    schema = pa.schema([(c.name, ARROW[c.type]) for c in view.columns])
    pq.write_table(
        pa.Table.from_pylist([{c.name: row.get(c.name) for c in view.columns} for row in rows], schema), path
    )


@pytest.fixture
def views() -> tuple[View, ...]:
    return VIEWS


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A folder with views/ and an empty release.json; no card yet."""
    root = tmp_path / "release"
    for view in VIEWS:
        if not view.is_per_archive:
            write(view, ROWS[view.name], root / "views" / f"{view.name}.parquet")
    for archive, rows in SAMPLE_FILES.items():
        write(SAMPLES, rows, root / "views" / SAMPLES.name / f"{archive}.parquet")
    (root / "release.json").write_text("{}\n")
    return root
