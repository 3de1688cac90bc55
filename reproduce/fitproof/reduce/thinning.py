"""Samples of a batch put into stage intervals and thinned, before they reach DuckDB.

An interval lasts from one stage begin, stage end or failure to the next. Interval 0 is the stretch from the first
sample to the first of them; interval k begins at the k-th. Only an interval that a stage begin opens has a stage: what
lies between stages and after a failure has none. Of every interval and 100 ms bucket the first sample, the earliest
maximum of device used and the earliest maximum of process used are kept, and of every interval the last sample.

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
    is_cpu: bool
    baseline_used_bytes: int | None
    """The monitor's reading before the child; a CPU trial states its own in a fact."""


@dataclass(frozen=True, slots=True)
class _Intervals:
    """Intervals with at least one sample, in order of the samples; columns of int64."""

    keys: pa.Array
    numbers: pa.Array
    lengths: pa.Array
    """Samples."""
    openers: pa.Array
    """Row among the boundaries; null for interval 0."""
    begins: pa.Array
    firsts: pa.Array
    """Time of the trace's first sample, its zero."""


def thin(samples: pa.Table, events: pa.Table, traces: list[Trace]) -> tuple[pa.Table, pa.Table]:
    """Rows of core_interval_peaks and core_thinned.

    `samples`: rows of raw_memory, sorted by attempt and time. `events`: rows of raw_events; boundaries of one attempt
    stand together, in order. A clock that runs backwards in the events gives rows without meaning and no error: the
    check of the events refuses it later.
    """
    if not samples.num_rows:
        return SCHEMAS["core_interval_peaks"].empty_table(), SCHEMAS["core_thinned"].empty_table()
    column = {name: _array(samples, name) for name in samples.column_names}
    boundaries = events.select(["attempt_key", "event", "stage", "step", "t_ns"])
    boundaries = boundaries.filter(pc.is_in(events["event"], pa.array(BOUNDARIES)))
    intervals = _intervals(column["attempt_key"], column["t_ns"], boundaries)
    ends = pc.cumulative_sum(intervals.lengths)
    device, process = _device_used(column, events, traces), column["process_used_bytes"]
    number = run_lengths(_count(len(ends)), intervals.lengths)  # of a sample's interval, counted through the batch
    begins = run_lengths(intervals.begins, intervals.lengths)
    bucket = pc.divide(pc.subtract(column["t_ns"], begins), BUCKET_NS)
    is_new = pc.or_(_differs(number), _differs(bucket))
    group = pc.subtract(pc.cumulative_sum(is_new.cast(pa.int64())), 1)
    opens = pc.indices_nonzero(is_new)
    peaks = _largest(group, device, process)
    at_peaks = [_first_of(group, pc.indices_nonzero(pc.equal(values, largest.take(group))))
                for values, largest in ((device, peaks[0]), (process, peaks[1]))]  # fmt: skip
    kept = pa.concat_arrays([opens, pc.subtract(ends, 1).cast(pa.uint64()), *at_peaks])
    kept = kept.take(pc.array_sort_indices(kept))
    kept = kept.filter(_differs(kept))
    of_kept = number.take(kept)
    stage, step = _stages(boundaries, intervals)
    elapsed = pc.subtract(column["t_ns"].take(kept), intervals.firsts.take(of_kept))
    thinned = pa.Table.from_arrays(
        [intervals.keys.take(of_kept), column["sample"].take(kept), elapsed, stage.take(of_kept), step.take(of_kept),
         intervals.numbers.take(of_kept), column["device_index"].take(kept), device.take(kept), process.take(kept)],
        schema=SCHEMAS["core_thinned"],
    )  # fmt: skip
    first = _first_of(number, pc.indices_nonzero(pc.is_valid(process)))
    first = first.take(pc.index_in(_count(len(ends)), number.take(first)))  # null where an interval has none
    times = column["t_ns"]
    interval_peaks = pa.Table.from_arrays(
        [intervals.keys, intervals.numbers, *_largest(number.take(opens), *peaks), intervals.lengths,
         times.take(pc.subtract(ends, 1)), times.take(first), process.take(first)],
        schema=SCHEMAS["core_interval_peaks"],
    )  # fmt: skip
    return interval_peaks, thinned


def _intervals(keys: pa.Array, times: pa.Array, boundaries: pa.Table) -> _Intervals:
    t_ns = memoryview(times.buffers()[1]).cast("q")[times.offset : times.offset + len(times)]
    boundary_ns = boundaries["t_ns"].to_pylist()
    runs, rows_of = _runs(keys), _runs(_array(boundaries, "attempt_key"))
    begins, starts, openers, numbers, counts = [], [], [], [], []
    for key, (low, high) in runs.items():
        rows = range(*rows_of.get(key, (0, 0)))
        own = boundary_ns[rows.start : rows.stop]
        begins.append(t_ns[low])
        begins += own
        starts.append(low)
        starts += [bisect_left(t_ns, ns, low, high) for ns in own]
        openers += [None, *rows]
        numbers += range(len(own) + 1)
        counts.append(len(own) + 1)
    starts = pc.cumulative_max(_ints([*starts, len(t_ns)]))  # ascending even where the events' clock runs backwards
    lengths = pc.subtract(starts.slice(1), starts.slice(0, len(begins)))
    firsts = run_lengths([t_ns[low] for low, _ in runs.values()], counts)
    columns = (run_lengths(list(runs), counts), _ints(numbers), lengths, _ints(openers), _ints(begins), firsts)
    return _Intervals(*(column.filter(pc.greater(lengths, 0)) for column in columns))


def _runs(keys: pa.Array) -> dict[int, tuple[int, int]]:
    """Key -> its first row and the row after its last; equal keys are neighbours."""
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


def _stages(boundaries: pa.Table, intervals: _Intervals) -> tuple[pa.Array, pa.Array]:
    """Stage and step of each interval; null unless a stage begin opens it."""
    is_begin = pc.equal(_array(boundaries, "event"), "stage_begin")
    of_opener = [pc.if_else(is_begin, _array(boundaries, name), None) for name in ("stage", "step")]
    return tuple(values.take(intervals.openers) for values in of_opener)


def _largest(group: pa.Array, *columns: pa.Array) -> list[pa.Array]:
    """Largest value of each group in each column, groups in order of appearance; null where all values are."""
    names = [str(n) for n in range(len(columns))]
    table = pa.Table.from_arrays([group, *columns], names=["group", *names])
    found = table.group_by("group", use_threads=False).aggregate([(name, "max") for name in names])
    return [_array(found, f"{name}_max") for name in names]


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


def _count(length: int) -> pa.Array:
    """0, 1, ... as int64."""
    return _ints(range(length))


def _array(table: pa.Table, name: str) -> pa.Array:
    """One column without chunks; copied only if it has several."""
    column = table[name]
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])
