"""Raw tables in DuckDB: their columns follow schema/records.py. Arrow carries the rows over."""

import json
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ..schema import records
from ..schema.views.columns import SETTING_TYPES

_ARROW = {
    "str": pa.string(),
    "int": pa.int64(),
    "bool": pa.bool_(),
    "object": pa.string(),
    "list": pa.list_(pa.string()),
}
_SQL = {pa.string(): "VARCHAR", pa.int64(): "BIGINT", pa.bool_(): "BOOLEAN", pa.list_(pa.string()): "VARCHAR[]"}
_SETTING_ARROW = {"VARCHAR": pa.string(), "BIGINT": pa.int64(), "BOOLEAN": pa.bool_()}
# Fields of trial.json that no view takes from it: most were compared with path, plan, settings or ledger, whose rows
# have them.
_CHECKED_ELSEWHERE = ("schema_version", "execution", "panel", "slot_id", "attempt", "seed", "settings", "settings_id",
                      "configuration_id", "device", "torch", "transformers", "time_limit_seconds", "created_at",
                      "plan_digest", "code_digest", "campaign", "allocation_id")  # fmt: skip
KEY = ("attempt_key", pa.int64())
_OBJECTS = {f.name for spec in records.FILES.values() for f in spec if f.kind == "object"}


def _fields(spec: tuple[records.Field, ...], leave_out: Sequence[str] = ()) -> list[tuple[str, pa.DataType]]:
    return [(f.name, _ARROW[f.kind]) for f in spec if f.name not in leave_out]


def _event_fields() -> dict[str, pa.DataType]:
    """Every field of every event once. A fact's value, integer or text, has two columns of its own."""
    specs = (records.EVENT_COMMON, *records.EVENTS.values())
    return {f.name: _ARROW[f.kind] for spec in specs for f in spec if f.name != "value"}


EVENT_FIELDS = _event_fields()
_text, _int = pa.string(), pa.int64()
SCHEMAS: dict[str, pa.Schema] = {
    "raw_settings": pa.schema(
        [("settings_key", _text), ("settings_id", _text), ("model_family", _text)]
        + [(name, _SETTING_ARROW[kind]) for name, kind in SETTING_TYPES.items()]
    ),
    # one row per planned slot and (campaign, device, stack) that ran its panel in the archive
    "raw_slots": pa.schema(
        [("archive", _text), ("panel", _text), ("campaign", _text), ("slot_id", _text), ("slot_number", _int),
         ("seed", _int), ("estimate_seconds", _int), ("settings_key", _text), ("configuration_id", _text),
         ("device", _text), ("device_kind", _text), ("torch_version", _text), ("transformers_version", _text),
         ("plan_digest", _text), ("predictions_digest", _text)]
    ),
    # one row per start in a ledger; attempt_key is null where nothing but the ledger line is left
    "raw_attempts": pa.schema(
        [("archive", _text), ("panel", _text), ("campaign", _text), ("slot_id", _text), ("attempt_number", _int),
         ("configuration_id", _text), ("started_at", _text), ("ledger_ended_at", _text), KEY]
    ),
    "raw_trials": pa.schema([KEY, *_fields(records.TRIAL, _CHECKED_ELSEWHERE)]),
    "raw_environments": pa.schema([KEY, *_fields(records.ENVIRONMENT)]),
    # one row per line of a predictions file; the same file in several archives stands once
    "raw_predictions": pa.schema(
        [("archive", _text), ("predictions_digest", _text), ("settings_key", _text), ("fitted_families", _text)]
        + _fields(records.PREDICTION, ("schema_version", "settings", "fitted_families", "stages", "interval"))
        + [(f"{end}_{name}", _int) for name in records.INTERVALS for end in ("lowest", "highest")]
    ),
    "raw_predicted_stages": pa.schema(
        [("predictions_digest", _text), ("configuration_id", _text), ("method", _text), ("method_version", _text),
         *_fields(records.PREDICTED_STAGE)]
    ),
    # one row per record of a developer workload: a peer's has no attempts, ours no figures
    "raw_workloads": pa.schema(
        [("archive", _text), *_fields(records.WORKLOAD, ("schema_version", "attempts", "figures")),
         *_fields(records.WORKLOAD_ATTEMPTS), *_fields(records.WORKLOAD_FIGURES)]
    ),
    "raw_results": pa.schema([KEY, *_fields(records.RESULT)]),
    "raw_events": pa.schema(
        [KEY, ("line", _int), *EVENT_FIELDS.items(), ("value_int", _int), ("value_text", _text)]
    ),
    # of one batch only, as Arrow; what is kept of it are the two tables of thinning.py
    "raw_memory": pa.schema(
        [KEY, ("sample", _int), *((name, _int) for name in records.MEMORY_CSV_HEADER.split(","))]
    ),
    # one row per interval with at least one sample, before thinning
    "core_interval_peaks": pa.schema(
        [KEY, ("interval", _int), ("device_used_bytes", _int), ("process_used_bytes", _int), ("samples", _int),
         ("last_ns", _int), ("first_process_ns", _int), ("first_process_used_bytes", _int)]
    ),
    "core_thinned": pa.schema(
        [KEY, ("sample", _int), ("elapsed_ns", _int), ("stage", _text), ("step", _int), ("interval", _int),
         ("device_index", _int), ("device_used_bytes", _int), ("process_used_bytes", _int)]
    ),
}  # fmt: skip


def definition(name: str) -> str:
    """CREATE TABLE statement of one raw table."""
    return f"CREATE TABLE {name} ({', '.join(f'{field.name} {_SQL[field.type]}' for field in SCHEMAS[name])})"


def to_arrow(name: str, rows: list[dict]) -> pa.Table:
    """Rows of one raw table. Objects become JSON text."""
    schema = SCHEMAS[name]
    columns = []
    for field in schema:
        values = [row.get(field.name) for row in rows]
        if field.name in _OBJECTS:
            values = [json.dumps(v, sort_keys=True, ensure_ascii=False) for v in values]
        columns.append(pa.array(values, type=field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def run_lengths(values: list[int | None] | pa.Array, counts: list[int] | pa.Array) -> pa.Array:
    """values[i] repeated counts[i] times, as int64."""
    values, counts = pa.array(values, type=pa.int64()), pa.array(counts, type=pa.int64())
    some = pc.greater(counts, 0)
    ends = pc.cumulative_sum(counts.filter(some))
    if not len(ends):
        return pa.array([], type=pa.int64())
    return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(ends, values.filter(some)))
