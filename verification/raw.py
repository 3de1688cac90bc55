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
    """The stage_end, or the last thing that is known: the failure, the last event, the last sample."""
    failure: dict | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """What an attempt's samples and events say."""

    samples: pl.DataFrame
    """t_ns, device_used_bytes above the baseline, process_used_bytes; ordered by time."""
    intervals: list[Interval]
    overhead: int | None
    facts: dict


def status(attempt: RawAttempt) -> str:
    return attempt.result["status"] if attempt.result else "interrupted"


def limit_bytes(trial: dict) -> int | None:
    """The operating limit; None without a capacity and below the smallest capacity that is labelled."""
    if trial["capacity_mib"] is None or trial["capacity_mib"] < SMALLEST_LABELLED_MIB:
        return None
    return trial["effective_capacity_bytes"] - MARGIN_BYTES


def measure(attempt: RawAttempt) -> Measured:
    facts = {e["name"]: e["value"] for e in attempt.events if e["event"] == "fact"}
    samples = pl.read_csv(io.BytesIO(attempt.memory_csv or b"\n"), schema=SAMPLES) if attempt.memory_csv else None
    if samples is None:
        samples = pl.DataFrame(schema=SAMPLES)
    if attempt.trial["device_kind"] == "cpu":
        own = facts.get("baseline_process_bytes")
        used = pl.col("process_used_bytes") - pl.lit(own, dtype=pl.Int64)
    else:
        used = pl.col("device_used_bytes") - pl.lit(attempt.trial["baseline_used_bytes"], dtype=pl.Int64)
    samples = samples.select("t_ns", used.alias("device_used_bytes"), "process_used_bytes")
    intervals = stage_intervals(attempt, samples)
    return Measured(samples=samples, intervals=intervals, overhead=process_overhead(intervals, samples), facts=facts)


def stage_intervals(attempt: RawAttempt, samples: pl.DataFrame) -> list[Interval]:
    open_stage, found, failure = None, [], None
    last_ns = attempt.events[-1]["t_ns"] if attempt.events else 0
    for event in attempt.events:
        if event["event"] == "stage_begin":
            open_stage = event
        elif event["event"] == "failure":
            failure = event
        elif event["event"] == "stage_end" and open_stage:
            found.append(
                Interval(
                    stage=event["stage"], step=event["step"], begin_ns=open_stage["t_ns"], end=event,
                    end_ns=event["t_ns"], failure=None,
                )
            )  # fmt: skip
            open_stage = None
    if open_stage:
        last_sample = samples["t_ns"].max() if samples.height else None
        end_ns = failure["t_ns"] if failure else max(last_ns, last_sample or last_ns)
        found.append(
            Interval(
                stage=open_stage["stage"], step=open_stage["step"], begin_ns=open_stage["t_ns"], end=None,
                end_ns=end_ns, failure=failure,
            )
        )  # fmt: skip
    return found


def process_overhead(intervals: list[Interval], samples: pl.DataFrame) -> int | None:
    """Largest (process used - reserved) at a stage end, with the sample nearest to it, at most 50 ms away."""
    known = samples.filter(pl.col("process_used_bytes").is_not_null())
    differences = []
    for interval in intervals:
        if interval.end is None:
            continue
        near = known.with_columns((pl.col("t_ns") - interval.end_ns).abs().alias("distance"))
        near = near.filter(pl.col("distance") <= NEAR_NS).sort("distance", "t_ns")
        if near.height:
            differences.append(near["process_used_bytes"][0] - interval.end["reserved_bytes"])
    return max(differences) if differences else None


def peaks(intervals: list[Interval], used: pl.DataFrame, overhead: int | None) -> dict[str, int | None]:
    """The four peaks over some intervals and the samples that belong to them."""
    closed = [i.end for i in intervals if i.end] + [i.failure for i in intervals if i.failure]
    reserved = _largest(e["peak_reserved_bytes"] for e in closed)
    allocated = _largest(e["peak_allocated_bytes"] for e in closed)
    sampled = used["device_used_bytes"].max() if used.height else None
    inferred = reserved + overhead if reserved is not None and overhead is not None else None
    return {
        "peak_device_used_bytes": _largest((sampled, inferred)),
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
        inside = pl.any_horizontal(pl.col("t_ns").is_between(i.begin_ns, i.end_ns) for i in intervals)
        row = peaks(intervals, measured.samples.filter(inside), measured.overhead)
        row["ns"] = sum(i.end_ns - i.begin_ns for i in intervals)
        row["coverage"] = "completed" if all(i.end for i in intervals) else "terminal_partial"
        rows[stage] = row
    return rows


def state(attempt_status: str, peak: int | None, limit: int | None) -> str | None:
    """State of an eligible trial; None without a limit or a peak."""
    if attempt_status == "memory_failure":
        return "memory_failure"
    if limit is None or peak is None:
        return None
    return "within_margin" if peak <= limit else "above_margin"


def _largest(values) -> int | None:
    known = [v for v in values if v is not None]
    return max(known) if known else None
