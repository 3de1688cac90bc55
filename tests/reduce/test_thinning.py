"""Placing and thinning of samples against the definition, written out sample by sample."""

import pyarrow as pa
from fitproof.reduce.tables import SCHEMAS
from fitproof.reduce.thinning import BOUNDARIES, BUCKET_NS, Trace, thin
from hypothesis import given, settings
from hypothesis import strategies as st

STEP_NS = BUCKET_NS // 4  # so that buckets hold several samples
TIMES = st.lists(st.integers(0, 30), min_size=0, max_size=25).map(sorted)
BYTES = st.integers(0, 5)


@st.composite
def attempts(draw):
    """One attempt: its trace, its samples (t, device index, device used, process used), its events (name, t)."""
    samples = [(t * STEP_NS, draw(st.integers(0, 1)), draw(BYTES), draw(st.none() | BYTES)) for t in draw(TIMES)]
    events = [(draw(st.sampled_from([*BOUNDARIES, "finished"])), t * STEP_NS) for t in draw(TIMES)[:8]]
    baseline = draw(st.none() | st.integers(0, 3))
    return draw(st.booleans()), baseline, samples, events


def tables(made: list) -> tuple[pa.Table, pa.Table, list[Trace]]:
    samples, events, traces = [], [], []
    for key, (is_cpu, baseline, rows, marks) in enumerate(made):
        traces.append(Trace(key, is_cpu, None if is_cpu else baseline))
        for n, (t, index, device, process) in enumerate(rows):
            samples.append({"attempt_key": key, "sample": n, "t_ns": t, "device_index": index,
                            "device_used_bytes": device, "process_used_bytes": process})  # fmt: skip
        for line, (event, t) in enumerate(marks, start=1):
            events.append({"attempt_key": key, "line": line, "t_ns": t, "event": event, "stage": f"s{line}",
                           "step": line})  # fmt: skip
    facts = [{"attempt_key": key, "line": 99, "t_ns": 0, "event": "fact", "name": "baseline_process_bytes",
              "value_int": baseline} for key, (is_cpu, baseline, *_) in enumerate(made) if is_cpu]  # fmt: skip
    return (
        pa.Table.from_pylist(samples, schema=SCHEMAS["raw_memory"]),
        pa.Table.from_pylist(events + facts, schema=SCHEMAS["raw_events"]),
        traces,
    )


def by_definition(made: list) -> tuple[list[tuple], list[tuple]]:
    """Rows of core_interval_peaks and core_thinned."""
    peaks, thinned = [], []
    for key, (is_cpu, baseline, samples, events) in enumerate(made):
        marks = [(line, event, t) for line, (event, t) in enumerate(events, start=1) if event in BOUNDARIES]
        rows: dict[int, dict[int, list[tuple]]] = {}  # interval -> bucket -> its samples
        for n, (t, index, device, process) in enumerate(samples):
            interval = sum(mark_ns <= t for _, _, mark_ns in marks)
            begin = marks[interval - 1][2] if interval else samples[0][0]
            used = process if is_cpu else device
            used = None if used is None or baseline is None else used - baseline
            bucket = (t - begin) // BUCKET_NS
            rows.setdefault(interval, {}).setdefault(bucket, []).append((n, t, index, used, process))
        for interval, buckets in rows.items():
            every = [sample for bucket in buckets.values() for sample in bucket]
            known = [sample for sample in every if sample[4] is not None]
            kept = {every[-1]}
            for bucket in buckets.values():
                kept.add(bucket[0])
                for column in (3, 4):
                    values = [sample for sample in bucket if sample[column] is not None]
                    kept |= {max(values, key=lambda sample, c=column: (sample[c], -sample[0]))} if values else set()
            line, event, _ = marks[interval - 1] if interval else (None, None, None)
            stage, step = (f"s{line}", line) if event == "stage_begin" else (None, None)
            for n, t, index, used, process in sorted(kept):
                thinned.append((key, n, t - samples[0][0], stage, step, interval, index, used, process))
            largest = [max((s[c] for s in every if s[c] is not None), default=None) for c in (3, 4)]
            first = (known[0][1], known[0][4]) if known else (None, None)
            peaks.append((key, interval, *largest, len(every), every[-1][1], *first))
    return peaks, thinned


@settings(max_examples=300, deadline=None)
@given(st.lists(attempts(), max_size=4))
def test_thinning_is_its_definition(made):
    found = thin(*tables(made))
    assert [[tuple(row.values()) for row in table.to_pylist()] for table in found] == [*map(list, by_definition(made))]


def test_samples_in_several_chunks():
    made = [
        (False, 1, [(n * STEP_NS, 0, n % 7, n % 5) for n in range(60)], [("stage_begin", 10), ("stage_end", 10**9)])
    ]
    samples, events, traces = tables(made)
    chunked = pa.concat_tables([samples.slice(0, 7), samples.slice(7)])
    assert thin(chunked, events, traces) == thin(samples, events, traces)


def test_events_whose_clock_runs_backwards_do_no_harm():
    made = [(False, 0, [(n * STEP_NS, 0, n, n) for n in range(9)], [("stage_begin", 6 * STEP_NS), ("stage_end", 0)])]
    peaks, _ = thin(*tables(made))
    assert sum(peaks["samples"].to_pylist()) == 9
