"""From one raw attempt to its numbers, by the rules of docs/method.md, in Polars and plain Python.

Times are nanoseconds of one monotonic clock, sizes bytes. Missing evidence is None.
"""

import io
from collections import defaultdict
from dataclasses import dataclass

import polars as pl

from .archives import RawAttempt

NEAR_NS = 50_000_000
MARGIN_BYTES = 2_048 * 1_048_576
SMALLEST_LABELLED_MIB = 4_096
ELIGIBLE = ("completed", "memory_failure")
SAMPLES = {"t_ns": pl.Int64, "device_index": pl.Int64, "device_used_bytes": pl.Int64, "process_used_bytes": pl.Int64}


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """One pass of a stage. `end` is None where the process stopped inside it."""

    stage: str
    step: int
    begin_ns: int
    end: dict | None
    end_ns: int
    """The stage_end, or where the process stopped inside: the failure event, else the last event or sample."""
    failure: dict | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """What an attempt's samples and events say."""

    samples: pl.DataFrame
    """t_ns, device_used_bytes above the baseline, process_used_bytes; ordered by time."""
    intervals: list[Interval]
    overhead: int | None


def status(attempt: RawAttempt) -> str:
    return attempt.result["status"] if attempt.result else "interrupted"


def limit_bytes(trial: dict) -> int | None:
    """The operating limit; None without a capacity (on a CPU)."""
    effective = trial["effective_capacity_bytes"]
    return None if effective is None else effective - MARGIN_BYTES


def measure(attempt: RawAttempt) -> Measured:
    facts = {e["name"]: e["value"] for e in attempt.events if e["event"] == "fact"}
    csv = attempt.memory_csv
    samples = pl.read_csv(io.BytesIO(csv), schema=SAMPLES) if csv else pl.DataFrame(schema=SAMPLES)
    if attempt.trial["device_kind"] == "cpu":
        own = facts.get("baseline_process_bytes")
        used = pl.col("process_used_bytes") - pl.lit(own, dtype=pl.Int64)
    else:
        used = pl.col("device_used_bytes") - pl.lit(attempt.trial["baseline_used_bytes"], dtype=pl.Int64)
    samples = samples.select("t_ns", used.alias("device_used_bytes"), "process_used_bytes")
    intervals = stage_intervals(attempt, samples)
    overhead = None if attempt.trial["device_kind"] == "cpu" else process_overhead(attempt.events, samples)
    return Measured(samples=samples, intervals=intervals, overhead=overhead)


def stage_intervals(attempt: RawAttempt, samples: pl.DataFrame) -> list[Interval]:
    times = [event["t_ns"] for event in attempt.events[-1:]] + ([samples["t_ns"].max()] if samples.height else [])
    last_ns = max(times, default=0)
    found, begin = [], None
    for event in [*attempt.events, {"event": "nothing follows", "t_ns": None}]:
        if event["event"] == "stage_begin":
            begin = event
        elif begin and event["event"] in ("stage_end", "failure", "nothing follows"):
            is_end = event["event"] == "stage_end"
            end_ns = last_ns if event["t_ns"] is None else event["t_ns"]
            found.append(
                Interval(
                    stage=begin["stage"], step=begin["step"], begin_ns=begin["t_ns"], end_ns=end_ns,
                    end=event if is_end else None, failure=event if event["event"] == "failure" else None,
                )
            )  # fmt: skip
            begin = None
    return found


def process_overhead(events: list[dict], samples: pl.DataFrame) -> int | None:
    """Largest (process used - reserved) at a stage end, with the first process-used sample at or after it.

    That sample lies at most 50 ms after the end and before the next event other than a fact; without one the end says
    nothing.
    """
    known = samples.filter(pl.col("process_used_bytes").is_not_null())
    marks = [event for event in events if event["event"] != "fact"]
    differences = []
    for event, following in zip(marks, [*marks[1:], None], strict=True):
        if event["event"] != "stage_end":
            continue
        last_ns = event["t_ns"] + NEAR_NS
        if following is not None:
            last_ns = min(last_ns, following["t_ns"] - 1)
        rest = known.filter(pl.col("t_ns").is_between(event["t_ns"], last_ns))
        if rest.height:
            differences.append(rest["process_used_bytes"][0] - event["reserved_bytes"])
    return max(differences, default=None)


def peaks(intervals: list[Interval], used: pl.DataFrame, overhead: int | None) -> dict[str, int | None]:
    """The four peaks over some intervals and the samples that belong to them."""
    closed = [i.end for i in intervals if i.end] + [i.failure for i in intervals if i.failure]
    reserved = largest(e["peak_reserved_bytes"] for e in closed)
    allocated = largest(e["peak_allocated_bytes"] for e in closed)
    sampled = used["device_used_bytes"].max() if used.height else None
    inferred = reserved + overhead if reserved is not None and overhead is not None else None
    return {
        "peak_device_used_bytes": largest((sampled, inferred)),
        "peak_process_used_bytes": used["process_used_bytes"].max() if used.height else None,
        "peak_reserved_bytes": reserved,
        "peak_allocated_bytes": allocated,
    }


def stage_peaks(measured: Measured) -> dict[str, dict]:
    """stage -> its peaks, seconds in ns and coverage, over all its passes."""
    by_stage: dict[str, list[Interval]] = defaultdict(list)
    for interval in measured.intervals:
        by_stage[interval.stage].append(interval)
    rows = {}
    for stage, intervals in by_stage.items():
        # a sample at the very end belongs to what follows, unless nothing follows
        inside = pl.any_horizontal(
            pl.col("t_ns").is_between(i.begin_ns, i.end_ns, closed="left" if i.end or i.failure else "both")
            for i in intervals
        )
        row = peaks(intervals, measured.samples.filter(inside), measured.overhead)
        row["ns"] = sum(i.end_ns - i.begin_ns for i in intervals)
        tokens = [i.end["tokens"] for i in intervals if i.end and i.end["tokens"] is not None]
        row["tokens"] = sum(tokens) if tokens else None
        row["coverage"] = "completed" if all(i.end for i in intervals) else "terminal_partial"
        rows[stage] = row
    return rows


def trial_row(attempt: RawAttempt, measured: Measured) -> dict:
    """Peaks as observed (of a failed trial: what it held, not what it needs), state and time; no slot yet."""
    row = peaks(measured.intervals, measured.samples, measured.overhead)
    limit, peak = limit_bytes(attempt.trial), row["peak_device_used_bytes"]
    if status(attempt) == "memory_failure":
        state = "memory_failure"
    elif limit is None or peak is None:
        state = None
    else:
        state = "within_margin" if peak <= limit else "above_margin"
    return {**row, "state": state, "wall_ns": attempt.result["wall_ns"], "process_overhead_bytes": measured.overhead,
            "sample_count": measured.samples.height}  # fmt: skip


def largest(values) -> int | None:
    known = [v for v in values if v is not None]
    return max(known) if known else None
