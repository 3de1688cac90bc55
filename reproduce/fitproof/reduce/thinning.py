"""Samples of a batch put into stage intervals and thinned, before they reach DuckDB.

An interval lasts from one stage begin, stage end or failure to the next. Interval 0 is the stretch from the first sample
to the first of them; interval k begins at the k-th. Only an interval that a stage begin opens has a stage: what lies
between stages and after a failure has none. Of every interval and 100 ms bucket the first sample, the earliest maximum
of device used and the earliest maximum of process used are kept, and of every interval the last sample.

Samples come sorted by attempt and time, so that intervals and buckets are runs of rows: their ends are found by
bisection and everything else is Arrow's vector arithmetic on whole columns. In SQL the same takes a range join and a
sort of what is sorted already, at five times the cost.
"""

from bisect import bisect_left
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from .tables import SCHEMAS, run_lengths

BUCKET_NS = 100_000_000
BOUNDARIES = ("stage_begin", "stage_end", "failure")


@dataclass(frozen=True, slots=True)
class Trace:
    """What the samples of an attempt need to know of it."""

    attempt_key: int
    is_eligible: bool
    is_cpu: bool
    baseline_used_bytes: int | None
    """The monitor's reading before the child; a CPU trial states its own in a fact."""


@dataclass(slots=True)
class _Intervals:
    """Intervals with at least one sample, in order of the samples: a list per column."""

    lengths: list[int]
    """Samples."""
    keys: list[int]
    numbers: list[int]
    openers: list[int | None]
    """Row among the boundaries; None for interval 0."""
    begins: list[int]
    firsts: list[int]
    """Time of the trace's first sample, its zero."""


def thin(samples: pa.Table, events: pa.Table, traces: list[Trace]) -> tuple[pa.Table, pa.Table]:
    """Rows of core_interval_peaks and core_thinned, for eligible attempts.

    `samples`: rows of raw_memory, sorted by attempt and time. `events`: rows of raw_events; those of one attempt in
    order, facts anywhere. An attempt's samples are read against its own events only. A clock that runs backwards in
    the events gives rows without meaning and no error: the check of the events refuses it later.
    """
    samples = samples.combine_chunks()
    column = {name: _array(samples, name) for name in samples.column_names}
    if not samples.num_rows:
        return SCHEMAS["core_interval_peaks"].empty_table(), SCHEMAS["core_thinned"].empty_table()
    boundaries = events.filter(pc.is_in(events["event"], pa.array(BOUNDARIES))).combine_chunks()
    intervals = _intervals(column["attempt_key"], column["t_ns"], boundaries)
    number = run_lengths(list(range(len(intervals.lengths))), intervals.lengths)  # of a sample's interval in the batch
    device, process = _device_used(column, events, traces), column["process_used_bytes"]
    begins = run_lengths(intervals.begins, intervals.lengths)
    bucket = pc.divide(pc.subtract(column["t_ns"], begins), BUCKET_NS)
    is_new = pc.or_(_differs(number), _differs(bucket))
    group = pc.cumulative_sum(is_new.cast(pa.int64()))
    opens = pc.indices_nonzero(is_new)
    peaks = _largest(group, device, process)
    keep = [opens, pc.subtract(pc.cumulative_sum(_ints(intervals.lengths)), 1).cast(pa.uint64())]
    for values, name in ((device, "device_max"), (process, "process_max")):
        keep.append(_first_of(group, pc.indices_nonzero(pc.equal(values, _array(peaks, name).take(pc.subtract(group, 1))))))
    kept = pc.unique(pa.concat_arrays(keep))
    stage, step = _stages(boundaries, intervals)
    of_kept = number.take(kept)
    keys = _ints(intervals.keys)
    elapsed = pc.subtract(column["t_ns"].take(kept), _ints(intervals.firsts).take(of_kept))
    thinned = pa.Table.from_arrays(
        [keys.take(of_kept), column["sample"].take(kept), elapsed, stage.take(of_kept), step.take(of_kept),
         _ints(intervals.numbers).take(of_kept), column["device_index"].take(kept), device.take(kept),
         process.take(kept)],
        schema=SCHEMAS["core_thinned"],
    )  # fmt: skip
    eligible = pa.array([trace.attempt_key for trace in traces if trace.is_eligible], type=pa.int64())
    tables = _interval_peaks(intervals, number, opens, peaks, column), thinned
    return tuple(table.filter(pc.is_in(table["attempt_key"], eligible)) for table in tables)


def _intervals(keys: pa.Array, times: pa.Array, boundaries: pa.Table) -> _Intervals:
    found = _Intervals([], [], [], [], [], [])
    t_ns = memoryview(times.buffers()[1]).cast("q")[times.offset : times.offset + len(times)]
    begin_ns = boundaries["t_ns"].to_pylist()
    rows_of = _runs(boundaries["attempt_key"])
    for key, (low, high) in _runs(keys).items():
        at, opener, begin = low, None, t_ns[low]
        rows = range(*rows_of.get(key, (0, 0)))
        for number, row in enumerate([*rows, None]):
            end = bisect_left(t_ns, begin_ns[row], at, high) if row is not None else high
            if end > at:
                found.lengths.append(end - at)
                found.keys.append(key)
                found.numbers.append(number)
                found.openers.append(opener)
                found.begins.append(begin)
                found.firsts.append(t_ns[low])
            if row is not None:
                at, opener, begin = end, row, begin_ns[row]
    return found


def _runs(keys: pa.Array | pa.ChunkedArray) -> dict[int, tuple[int, int]]:
    """Key -> its first row and the row after its last; equal keys are neighbours."""
    if isinstance(keys, pa.ChunkedArray):
        keys = keys.combine_chunks()
    encoded = pc.run_end_encode(keys, run_end_type=pa.int64())
    ends = encoded.run_ends.to_pylist()
    return dict(zip(encoded.values.to_pylist(), zip([0, *ends], ends, strict=False), strict=True))


def _device_used(column: dict[str, pa.Array], events: pa.Table, traces: list[Trace]) -> pa.Array:
    """The monitor's reading minus the one before the child; on a CPU the unique set size minus its start."""
    baselines = {trace.attempt_key: trace.baseline_used_bytes for trace in traces}
    on_cpu = {trace.attempt_key for trace in traces if trace.is_cpu}
    used = column["device_used_bytes"]
    runs = _runs(column["attempt_key"])
    lengths = [high - low for low, high in runs.values()]
    if on_cpu:
        baselines |= dict.fromkeys(on_cpu) | _stated_baselines(events, on_cpu)
        is_cpu = pc.equal(run_lengths([int(key in on_cpu) for key in runs], lengths), 1)
        used = pc.if_else(is_cpu, column["process_used_bytes"], used)
    return pc.subtract(used, run_lengths([baselines[key] for key in runs], lengths))


def _stated_baselines(events: pa.Table, keys: set[int]) -> dict[int, int]:
    """The first integer that each attempt states as fact baseline_process_bytes."""
    facts = events.filter(pc.equal(events["name"], "baseline_process_bytes"))
    rows = zip(*(facts[name].to_pylist() for name in ("attempt_key", "line", "value_int")), strict=True)
    return {key: value for key, _, value in sorted(rows, reverse=True) if key in keys and value is not None}


def _interval_peaks(
    intervals: _Intervals, number: pa.Array, opens: pa.Array, peaks: pa.Table, column: dict[str, pa.Array]
) -> pa.Table:
    """Rows of core_interval_peaks. `opens`: the first row of each bucket, `peaks`: its maxima."""
    largest = _largest(number.take(opens), _array(peaks, "device_max"), _array(peaks, "process_max"))
    lasts = pc.subtract(pc.cumulative_sum(_ints(intervals.lengths)), 1)
    known = pc.indices_nonzero(pc.is_valid(column["process_used_bytes"]))
    first = _first_of(number, known)
    every = pa.array(range(len(intervals.lengths)), type=pa.int64())
    first = first.take(pc.index_in(every, number.take(first)))  # null where an interval has none
    return pa.Table.from_arrays(
        [_ints(intervals.keys), _ints(intervals.numbers), _array(largest, "device_max"),
         _array(largest, "process_max"), _ints(intervals.lengths), column["t_ns"].take(lasts),
         column["t_ns"].take(first), column["process_used_bytes"].take(first)],
        schema=SCHEMAS["core_interval_peaks"],
    )  # fmt: skip


def _stages(boundaries: pa.Table, intervals: _Intervals) -> tuple[pa.Array, pa.Array]:
    """Stage and step of each interval; null unless a stage begin opens it."""
    openers = _ints(intervals.openers)
    opened = pc.equal(_array(boundaries, "event"), "stage_begin")
    return tuple(
        pc.if_else(opened, _array(boundaries, name), None).take(openers) for name in ("stage", "step")
    )


def _largest(group: pa.Array, device: pa.Array, process: pa.Array) -> pa.Table:
    """Columns device_max and process_max, one row a group in order of appearance; null where all values are."""
    table = pa.table({"group": group, "device": device, "process": process})
    return table.group_by("group", use_threads=False).aggregate([("device", "max"), ("process", "max")])


def _first_of(group: pa.Array, rows: pa.Array) -> pa.Array:
    """Of ascending `rows` the first in each group; equal groups are neighbours."""
    return rows.filter(_differs(group.take(rows)))


def _differs(values: pa.Array) -> pa.Array:
    """Whether each value is another than the one before; true for the first. No value is null."""
    last = max(len(values) - 1, 0)
    later = pc.not_equal(values.slice(1), values.slice(0, last))
    return pa.concat_arrays([pa.array([True] * min(len(values), 1), type=pa.bool_()), later])


def _ints(values: list[int | None]) -> pa.Array:
    return pa.array(values, type=pa.int64())


def _array(table: pa.Table, name: str) -> pa.Array:
    """One column without chunks."""
    column = table[name].combine_chunks()
    return column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks)
