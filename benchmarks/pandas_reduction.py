"""The same views in plain pandas: what an analyst would write: groupby, merge, merge_asof.

    views = reduce_archives([Path("releases/a.tar.zst"), ...])   # name -> DataFrame
    reduce_to([...], Path("out"))                                # the same, as Parquet files

It is the peer of the reduction benchmark, and a third opinion on the values: a test compares every column of every view
with the pipeline's. *Plain* means: whole columns through pandas' own operations in their default form, one statement a
step, on data that is read once; text keys stay text. There is no loop over samples where pandas has an operation, and
no tuning either: no categories, no NumPy below pandas, no threads, no batches, no other engine. Rows are looped over
only where pandas has nothing (ids are SHA-256, labels have their own rule), and there are few of these.

It does less than the pipeline: no digest and no record is checked, no content digest is made, memory is not bounded,
and what the synthetic panels do not have is left out (attempts without trial.json, several campaigns or devices on one
plan, CPU trials, plans with configurations that never started,
predictions, workloads).
"""

import hashlib
import json
from pathlib import Path

import pandas as pd
from fitproof.schema.models import get_model
from fitproof.schema.settings import ADDED_LATER, major_minor
from fitproof.schema.view import View
from fitproof.schema.views import VIEWS

from benchmarks.pandas_reading import Raw, read_archives

NS, MIB = 1_000_000_000, 1_048_576
MARGIN_BYTES = 2_048 * MIB
NEAR_NS, BUCKET_NS = 50_000_000, 100_000_000
ELIGIBLE = ["completed", "memory_failure"]
SLOT = ["panel", "slot_id"]
STACK = ["device_name", "driver_version", "compute_capability", "driver_total_bytes", "monitor_total_bytes", "torch",
         "cuda", "transformers", "peft", "bitsandbytes", "python", "os", "host_memory_bytes", "host_cores"]  # fmt: skip

FAILURE_FIELDS = {
    "step": "step",
    "requested_alloc_bytes": "requested_bytes",
    "device_free_bytes": "free_bytes",
    "reclaimable_bytes": "reclaimable_bytes",
    "allocated_bytes": "allocated_bytes",
    "reserved_bytes": "reserved_bytes",
    "peak_allocated_bytes": "stage_peak_allocated_bytes",
    "peak_reserved_bytes": "stage_peak_reserved_bytes",
    "alloc_retries": "alloc_retries",
    "oom_count": "oom_count",
    "exception_types": "exception_types",
}
DTYPES = {"VARCHAR": "string", "BIGINT": "Int64", "DOUBLE": "float64", "BOOLEAN": "boolean",
          "TIMESTAMP": "datetime64[us]"}  # fmt: skip


def reduce_archives(paths: list[Path]) -> dict[str, pd.DataFrame]:
    raw = read_archives(paths)
    attempts = make_attempts(raw)
    intervals = make_intervals(raw)
    samples = place_samples(raw, attempts, intervals)
    trials = make_trials(raw, attempts, intervals, samples)
    slots = make_slots(raw, attempts)
    views = {
        "attempts": attempts,
        "trials": trials,
        "panel_slots": slots,
        "stage_peaks": make_stage_peaks(trials, intervals, samples),
        "memory_samples": thin(trials, samples),
        "iteration_costs": make_costs(trials, intervals),
        "failures": make_failures(raw, trials),
        "devices": make_devices(raw, attempts),
        "configurations": make_configurations(slots, attempts, trials),
    }
    return {name: finish(view, VIEWS[name]) for name, view in views.items()}


def finish(rows: pd.DataFrame, view: View) -> pd.DataFrame:
    """The columns that the schema names, in its types, sorted by the key."""
    dtypes = {column.name: DTYPES[column.type] for column in view.columns}
    return rows[list(dtypes)].astype(dtypes).sort_values(list(view.key)).reset_index(drop=True)


def reduce_to(paths: list[Path], out: Path) -> int:
    """Write every view as out/<name>.parquet, samples as a file per archive; returns the number of views."""
    views = reduce_archives(paths)
    archives = views["trials"][["trial_id", "archive"]]
    for archive, samples in views["memory_samples"].merge(archives, on="trial_id").groupby("archive"):
        (out / "memory_samples").mkdir(exist_ok=True)
        path = out / "memory_samples" / f"{archive}.parquet"
        samples.drop(columns="archive").to_parquet(path, compression="zstd")
    for name, view in views.items():
        if name != "memory_samples":
            view.to_parquet(out / f"{name}.parquet", compression="zstd")
    return len(views)


def short_id(*parts: object) -> str:
    return hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()[:16]


def make_attempts(raw: Raw) -> pd.DataFrame:
    starts = raw.ledger[raw.ledger["event"] == "start"][[*SLOT, "attempt", "at"]].rename(columns={"at": "started_at"})
    results = raw.results.rename(columns={"failure_stage": "result_failure_stage"})
    attempts = raw.trials.merge(starts, on=[*SLOT, "attempt"]).merge(results, on="key", how="left")
    attempts = attempts.rename(columns={"attempt": "attempt_number", "result_failure_stage": "failure_stage"})
    attempts.loc[attempts["status"].isna(), "reason"] = "the supervisor ended before the attempt did"
    attempts["status"] = attempts["status"].fillna("interrupted")
    attempts["started_at"] = pd.to_datetime(attempts["started_at"]).dt.tz_localize(None)
    attempts["ended_at"] = pd.to_datetime(attempts["ended_at"]).dt.tz_localize(None)
    attempts["device_seconds"] = attempts["device_ns"] / NS
    attempts["wall_seconds"] = attempts["wall_ns"] / NS
    attempts = attempts.sort_values([*SLOT, "attempt_number"])
    names = attempts[["panel", "slot_id", "configuration_id", "attempt_number", "campaign"]].values.tolist()
    attempts["attempt_id"] = [short_id(*name) for name in names]
    is_eligible = attempts["status"].isin(ELIGIBLE)
    attempts["is_trial"] = is_eligible & ~attempts[is_eligible].duplicated(SLOT).reindex(
        attempts.index, fill_value=True
    )
    slot_key = [short_id(panel, slot, configuration, campaign) for panel, slot, configuration, _, campaign in names]
    attempts["trial_id"] = pd.Series(slot_key, index=attempts.index).where(attempts["is_trial"])
    failed = (attempts["status"] == "ineligible").astype(int)
    attempts["is_replacement"] = failed.groupby([attempts["panel"], attempts["slot_id"]]).cumsum() - failed > 0
    for name in ("model_id", "workload"):
        attempts[name] = [settings.get(name, ADDED_LATER.get(name)) for settings in attempts["settings"]]
    return attempts.reset_index(drop=True)


def make_intervals(raw: Raw) -> pd.DataFrame:
    """One row per pass of a stage: begin, end (null where it ended in it) and the allocator's peaks."""
    marks = raw.events[raw.events["event"].isin(["stage_begin", "stage_end", "failure"])].copy()
    begins = marks["event"] == "stage_begin"
    marks["pass"] = begins.groupby(marks["key"]).cumsum()
    opened = marks[begins][["key", "pass", "stage", "step", "t_ns"]].rename(columns={"t_ns": "begin_ns"})
    closing = ["key", "pass", "event", "t_ns", "reserved_bytes", "peak_allocated_bytes", "peak_reserved_bytes",
               "tokens", "alloc_retries"]  # fmt: skip
    closed = marks[~begins][closing].drop_duplicates(["key", "pass"]).rename(columns={"t_ns": "end_ns"})
    intervals = opened.merge(closed, on=["key", "pass"], how="left")
    intervals["is_completed"] = intervals["event"] == "stage_end"
    last = raw.samples.groupby("key")["t_ns"].max().rename("last_ns").reset_index()
    intervals = intervals.merge(last, on="key", how="left")
    intervals["end_ns"] = intervals["end_ns"].fillna(intervals["last_ns"]).astype("int64")
    return intervals.drop(columns="last_ns")


def place_samples(raw: Raw, attempts: pd.DataFrame, intervals: pd.DataFrame) -> pd.DataFrame:
    """Every sample of a trial with its stage, step and 100 ms bucket."""
    trials = attempts.loc[attempts["is_trial"], ["key", "baseline_used_bytes"]]
    samples = raw.samples.merge(trials, on="key")
    samples["sample"] = samples.groupby("key").cumcount()
    samples["device_used_bytes"] -= samples["baseline_used_bytes"].astype("int64")
    marks = raw.events[raw.events["event"].isin(["stage_begin", "stage_end", "failure"])]
    marks = marks[["key", "t_ns", "event", "stage", "step"]].copy()
    marks["interval"] = marks.groupby("key").cumcount() + 1
    marks["mark_ns"] = marks["t_ns"]
    samples = pd.merge_asof(samples.sort_values("t_ns"), marks.sort_values("t_ns"), on="t_ns", by="key")
    samples = samples.sort_values(["key", "sample"])
    inside = samples["event"] == "stage_begin"
    samples["stage"] = samples["stage"].where(inside)
    samples["step"] = samples["step"].where(inside)
    samples["interval"] = samples["interval"].fillna(0).astype("int64")
    first = samples.groupby("key")["t_ns"].transform("min")
    samples["elapsed_seconds"] = (samples["t_ns"] - first) / NS
    origin = samples["mark_ns"].fillna(first).astype("int64")
    samples["bucket"] = (samples["t_ns"] - origin) // BUCKET_NS
    return samples.reset_index(drop=True)


def make_trials(raw: Raw, attempts: pd.DataFrame, intervals: pd.DataFrame, samples: pd.DataFrame) -> pd.DataFrame:
    trials = attempts[attempts["is_trial"]].set_index("key")
    trials["process_overhead_bytes"] = process_overheads(raw, samples)
    peaks = intervals.groupby("key")[["peak_reserved_bytes", "peak_allocated_bytes"]].max()
    sampled = samples.groupby("key")[["device_used_bytes", "process_used_bytes"]].max()
    failed = trials["status"] == "memory_failure"
    trials["peak_reserved_bytes"] = peaks["peak_reserved_bytes"]
    trials["peak_allocated_bytes"] = peaks["peak_allocated_bytes"]
    trials["peak_process_used_bytes"] = sampled["process_used_bytes"]
    trials["largest_device_used_sample_bytes"] = sampled["device_used_bytes"]
    trials["reserved_plus_overhead_bytes"] = trials["peak_reserved_bytes"] + trials["process_overhead_bytes"]
    parts = trials[["largest_device_used_sample_bytes", "reserved_plus_overhead_bytes"]].astype("Float64")
    trials["peak_device_used_bytes"] = parts.max(axis=1)
    trials["limit_bytes"] = trials["effective_capacity_bytes"] - MARGIN_BYTES
    within = trials["peak_device_used_bytes"] <= trials["limit_bytes"]
    trials["state"] = within.map({True: "within_margin", False: "above_margin"}).mask(failed, "memory_failure")
    trials["is_within_5_percent"] = (
        trials["peak_device_used_bytes"] * 100 <= trials["effective_capacity_bytes"] * 95
    ).fillna(False) & ~failed
    trials["sample_count"] = samples.groupby("key").size()
    trials["alloc_retries"] = intervals.dropna(subset="alloc_retries").groupby("key")["alloc_retries"].last()
    facts = raw.events[raw.events["event"] == "fact"].pivot(index="key", columns="name", values="value")
    for name in ("kv_pool_bytes", "parameters", "trainable_parameters"):
        trials[name] = facts.get(name)
    for name in ("median", "max"):
        trials[f"{name}_interval_seconds"] = trials[f"{name}_interval_ns"] / NS
    trials["sampler_interval_seconds"] = trials["sampler_interval_ns"] / NS
    events = raw.events.reindex(columns=[*raw.events.columns.union(["logits_chunk"], sort=False)])
    trials["smallest_logits_chunk"] = events[events["event"] == "downshift"].groupby("key")["logits_chunk"].min()
    trials["stack_id"] = raw.environments.set_index("key")[STACK].apply(stack_id, axis=1)
    return trials.reset_index()


def stack_id(row: pd.Series) -> str:
    text = "\x1f".join("\x1e" if pd.isna(value) else str(value) for value in row)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def process_overheads(raw: Raw, samples: pd.DataFrame) -> pd.Series:
    """key -> largest process used - reserved, over the first sample after each stage end and before the next event."""
    marks = raw.events[raw.events["event"] != "fact"][["key", "event", "t_ns", "reserved_bytes"]].copy()
    marks["next_ns"] = marks["t_ns"].astype("Int64").groupby(marks["key"]).shift(-1)
    ends = marks[marks["event"] == "stage_end"].rename(columns={"t_ns": "end_ns"}).sort_values("end_ns")
    known = samples.dropna(subset="process_used_bytes")[["key", "t_ns", "process_used_bytes"]].sort_values("t_ns")
    rests = pd.merge_asof(ends, known, left_on="end_ns", right_on="t_ns", by="key", direction="forward",
                          tolerance=NEAR_NS)  # fmt: skip
    rests = rests[rests["next_ns"].isna() | (rests["t_ns"] < rests["next_ns"])]
    return (rests["process_used_bytes"] - rests["reserved_bytes"]).groupby(rests["key"]).max()


def make_slots(raw: Raw, attempts: pd.DataFrame) -> pd.DataFrame:
    by_slot = attempts.groupby(SLOT)
    told = by_slot.agg(attempts=("key", "size"), last_status=("status", "last")).reset_index()
    trial = attempts[attempts["is_trial"]].groupby(SLOT).agg(trial_id=("trial_id", "first"), end=("status", "first"))
    campaigns = attempts[["panel", "campaign", "device"]].drop_duplicates()
    slots = raw.plans.merge(campaigns, on="panel").merge(told, on=SLOT, how="left")
    slots = slots.merge(trial.reset_index(), on=SLOT, how="left").rename(columns={"digest": "plan_digest"})
    ids = attempts[["settings", "settings_id", "configuration_id"]].assign(text=texts(attempts["settings"]))
    ids = ids.drop(columns="settings").drop_duplicates("text")
    slots = slots.assign(text=texts(slots["settings"])).merge(ids, on="text", how="left")
    for name in ("model_id", "workload"):
        slots[name] = [settings.get(name, ADDED_LATER.get(name)) for settings in slots["settings"]]
    slots["attempts"] = slots["attempts"].fillna(0).astype(int)
    slots["state"] = slots["end"].map({"completed": "completed", "memory_failure": "failed"})
    slots["state"] = slots["state"].fillna(slots["last_status"]).fillna("not started")
    return slots


def texts(settings: pd.Series) -> list[str]:
    """Equal for equal settings."""
    return [json.dumps(value, sort_keys=True) for value in settings]


def make_stage_peaks(trials: pd.DataFrame, intervals: pd.DataFrame, samples: pd.DataFrame) -> pd.DataFrame:
    names = ["key", "trial_id", "configuration_id"]
    passes = intervals.merge(trials[[*names, "process_overhead_bytes"]], on="key")
    passes["ns"] = passes["end_ns"] - passes["begin_ns"]
    passes["tokens"] = passes["tokens"].where(passes["is_completed"])
    by_stage = passes.groupby(["key", "stage"])
    peaks = by_stage.agg(
        peak_reserved_bytes=("peak_reserved_bytes", "max"),
        peak_allocated_bytes=("peak_allocated_bytes", "max"),
        ns=("ns", "sum"),
        runs=("pass", "size"),
        completed_runs=("is_completed", "sum"),
        process_overhead_bytes=("process_overhead_bytes", "first"),
        trial_id=("trial_id", "first"),
        configuration_id=("configuration_id", "first"),
    )
    peaks["tokens"] = by_stage["tokens"].sum(min_count=1)
    inside = samples.dropna(subset="stage").groupby(["key", "stage"])
    peaks["largest_device_used_sample_bytes"] = inside["device_used_bytes"].max()
    peaks["peak_process_used_bytes"] = inside["process_used_bytes"].max()
    peaks["sample_count"] = inside.size()
    peaks["sample_count"] = peaks["sample_count"].fillna(0).astype(int)
    peaks["reserved_plus_overhead_bytes"] = peaks["peak_reserved_bytes"] + peaks["process_overhead_bytes"]
    parts = peaks[["largest_device_used_sample_bytes", "reserved_plus_overhead_bytes"]].astype("Float64")
    peaks["peak_device_used_bytes"] = parts.max(axis=1)
    peaks["seconds"] = peaks["ns"] / NS
    complete = peaks["runs"] == peaks["completed_runs"]
    peaks["coverage"] = complete.map({True: "completed", False: "terminal_partial"})
    return peaks.reset_index()


def thin(trials: pd.DataFrame, samples: pd.DataFrame) -> pd.DataFrame:
    """First row and earliest maxima of every 100 ms bucket, and the last row of every interval."""
    buckets = samples.groupby(["key", "interval", "bucket"])
    keep = [buckets["sample"].idxmin(), samples.groupby(["key", "interval"])["sample"].idxmax()]
    for column in ("device_used_bytes", "process_used_bytes"):
        known = samples.dropna(subset=column)
        keep.append(known.astype({column: "int64"}).groupby(["key", "interval", "bucket"])[column].idxmax())
    kept = samples.loc[pd.concat(keep).drop_duplicates().sort_values()]
    return kept.merge(trials[["key", "trial_id"]], on="key")


def make_costs(trials: pd.DataFrame, intervals: pd.DataFrame) -> pd.DataFrame:
    passes = intervals[intervals["is_completed"]].merge(trials[["key", "trial_id", "configuration_id"]], on="key")
    passes["ns"] = passes["end_ns"] - passes["begin_ns"]
    by_step = passes.groupby(["trial_id", "configuration_id", "step", "stage"])
    costs = by_step.agg(ns=("ns", "sum"), runs=("pass", "size"))
    costs["tokens"] = by_step["tokens"].sum(min_count=1)
    costs["seconds"] = costs["ns"] / NS
    costs["tokens_per_second"] = (costs["tokens"] / costs["seconds"]).where(costs["ns"] > 0)
    return costs.reset_index()


def make_failures(raw: Raw, trials: pd.DataFrame) -> pd.DataFrame:
    columns = ["key", "trial_id", "configuration_id", "seed", "device", "model_id", "workload", "capacity_mib",
               "effective_capacity_bytes", "failure_stage", "evidence", "exit_code", "signal",
               "largest_device_used_sample_bytes"]  # fmt: skip
    failed = trials.loc[trials["state"] == "memory_failure", columns]
    event = raw.events[raw.events["event"] == "failure"].drop_duplicates("key", keep="last").set_index("key")
    event = event[list(FAILURE_FIELDS)].rename(columns=FAILURE_FIELDS)
    event["exception_types"] = event["exception_types"].str.join(" > ")
    return failed.rename(columns={"failure_stage": "stage"}).merge(event, on="key", how="left")


def make_devices(raw: Raw, attempts: pd.DataFrame) -> pd.DataFrame:
    seen = raw.environments.merge(attempts[["key", "is_trial", "started_at"]], on="key")
    by_stack = seen.groupby(STACK, dropna=False)
    devices = by_stack.agg(
        attempts=("key", "size"),
        trials=("is_trial", "sum"),
        cards=("device_digest", "nunique"),
        first_started_at=("started_at", "min"),
        last_started_at=("started_at", "max"),
    ).reset_index()
    devices["stack_id"] = devices[STACK].apply(stack_id, axis=1)
    return devices


def make_configurations(slots: pd.DataFrame, attempts: pd.DataFrame, trials: pd.DataFrame) -> pd.DataFrame:
    started = attempts.sort_values("started_at").groupby("configuration_id")
    table = started.agg(
        campaign=("campaign", "first"),
        campaigns=("campaign", "nunique"),
        panel=("panel", "first"),
        device=("device", "first"),
        device_kind=("device_kind", "first"),
        settings_id=("settings_id", "first"),
        settings=("settings", "first"),
        torch=("torch", "first"),
        transformers=("transformers", "first"),
    )
    settings = pd.json_normalize([{**ADDED_LATER, **one} for one in table["settings"]]).set_index(table.index)
    table = table.drop(columns="settings").join(settings)
    table["model_family"] = [get_model(model_id).family for model_id in table["model_id"]]
    for name in ("torch", "transformers"):
        table[f"{name}_version"] = table[name].map(major_minor)
    table["planned_slots"] = slots.groupby("configuration_id").size()
    first = trials.merge(table["campaign"].rename("first_campaign"), on="configuration_id")
    first = first[first["campaign"] == first["first_campaign"]]
    by_configuration = first.groupby("configuration_id")
    table["attempts"] = attempts.groupby("configuration_id").size()
    table["eligible_trials"] = by_configuration.size()
    table["distinct_seeds"] = by_configuration["seed"].nunique()
    table["memory_failures"] = (first["state"] == "memory_failure").groupby(first["configuration_id"]).sum()
    table["above_margin_trials"] = (first["state"] == "above_margin").groupby(first["configuration_id"]).sum()
    completed = first[first["status"] == "completed"].groupby("configuration_id")
    counts = ["eligible_trials", "distinct_seeds", "memory_failures", "above_margin_trials"]
    table[counts] = table[counts].fillna(0).astype(int)
    table["completed_trials"] = table["eligible_trials"] - table["memory_failures"]
    for name, column in (("peak", "peak_device_used_bytes"), ("reserved", "peak_reserved_bytes"),
                         ("allocated", "peak_allocated_bytes"), ("process", "peak_process_used_bytes")):  # fmt: skip
        table[f"max_completed_{name}_mib"] = completed[column].max() / MIB
    table["min_effective_capacity_bytes"] = by_configuration["effective_capacity_bytes"].min()
    table["is_within_5_percent"] = by_configuration["is_within_5_percent"].all()
    per_seed = first.sort_values(["configuration_id", "seed", "started_at"]).drop_duplicates(
        ["configuration_id", "seed"]
    )
    three = per_seed.groupby("configuration_id").head(3).groupby("configuration_id")
    table["limit_mib"] = three["limit_bytes"].min() / MIB
    table["single_run_state"] = three["state"].nth(0).set_axis(three["configuration_id"].nth(0))
    table["label"] = pd.Series({identity: _label(trials) for identity, trials in three}, dtype=object)
    table["label"] = table["label"].fillna("unresolved").where(table["capacity_mib"] >= 4096)
    return table.reset_index()


def _label(trials: pd.DataFrame) -> str:
    """The label over the trials of up to three seeds, all against the smallest of their limits."""
    if len(trials) < 3:
        return "unresolved"
    if (trials["status"] == "memory_failure").any():
        return "memory_failure"
    if trials["peak_device_used_bytes"].isna().any():
        return "unresolved"
    is_above = trials["peak_device_used_bytes"] > trials["limit_bytes"].min()
    return "above_margin" if is_above.any() else "within_margin"
