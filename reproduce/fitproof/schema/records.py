"""Raw records: the files of one attempt, field by field. The runner writes them, the pipeline checks and reads them.

Layout of a run directory, and of an archive made from it:

    <panel>/plan.json        the frozen panel
    <panel>/ledger.jsonl     one line for every start and end of an attempt
    <panel>/<slot_id>/attempt-<n>/{trial.json, environment.json, events.jsonl, memory.csv, stdout.log, stderr.log,
                                   result.json}
    <panel>/predictions.jsonl    frozen predictions: one line per configuration and method; the plan names its SHA-256
    <folder>/workload-<engine>.json   a developer workload: one of ours beside its panel's plan, a peer's anywhere
    .checkpoints/            training state for `fitproof run --resume`, <panel>/<slot_id>/; no record, never packed

Bytes are integers, `*_ns` integer nanoseconds of CLOCK_MONOTONIC (one clock for the child and the sampler), `*_at`
UTC text with microseconds ("2026-12-01T10:00:00.000000Z"). Unknown extra fields are refused.
"""

from dataclasses import dataclass

SCHEMA_VERSION = 1

STAGES = ("initializing", "rollout", "rollout_logprob", "reference_logprob", "teacher_scoring", "reward",
          "actor_update", "critic_update", "weight_sync", "checkpoint", "validation", "idle")  # fmt: skip
STATUSES = ("completed", "memory_failure", "ineligible", "interrupted")
FAILURE_CLASSES = (
    "device_memory",
    "host_memory",
    "timeout",
    "device_fault",
    "dependency",
    "data",
    "harness",
    "unknown",
)
# At most one replacement attempt for these; memory failures, dependency, data and unknown get none.
RETRIED_CLASSES = ("device_fault", "host_memory", "timeout", "harness")

CHECKPOINTS = ".checkpoints"
"""Folder of a run directory, beside the panels, for the checkpoints of its trials."""

PREDICTIONS = "predictions.jsonl"
"""File of frozen predictions: beside the plan.json that names its digest, or in a folder of its own."""

MEMORY_CSV_HEADER = "t_ns,device_index,device_used_bytes,process_used_bytes"


@dataclass(frozen=True, slots=True)
class Field:
    """One key of a raw JSON object. `kind`: str, int, bool, object, list or any."""

    name: str
    kind: str
    nullable: bool
    meaning: str


def _f(name: str, kind: str, meaning: str, nullable: bool = False) -> Field:
    return Field(name, kind, nullable, meaning)


PLAN = (
    _f("schema_version", "int", "version of this layout"),
    _f("panel", "str", "name of the panel"),
    _f("reason", "str", "what the panel is for and how its capacities were chosen"),
    _f("device_kind", "str", "cuda, rocm or cpu"),
    _f("code_digest", "str", "SHA-256 over the package's files; a plan made by other code is refused"),
    _f("predictions_digest", "str", "SHA-256 of the frozen predictions for this panel", True),
    _f("slots", "list", "the planned slots in order: slot_id, seed, settings, estimate_seconds"),
    _f("digest", "str", "SHA-256 of the canonical JSON of all other fields"),
)
SLOT = (
    _f("slot_id", "str", "16 hex digits over panel, settings and seed"),
    _f("seed", "int", "seed of the slot"),
    _f("settings", "object", "the resolved settings"),
    _f("estimate_seconds", "int", "expected device seconds"),
)
LEDGER = (
    _f("event", "str", "start or end"),
    _f("slot_id", "str", ""),
    _f("attempt", "int", "1, or 2 for the one replacement, more only after interruptions"),
    _f("at", "str", "UTC time"),
    _f("allocation_id", "str", "random id of the supervisor's run"),
    _f("campaign", "str", "name of the campaign"),
    _f("status", "str", "end lines: status of the attempt", True),
    _f("failure_class", "str", "end lines", True),
)
TRIAL = (
    _f("schema_version", "int", ""),
    _f("execution", "str", "measured or simulated"),
    _f("panel", "str", ""),
    _f("slot_id", "str", ""),
    _f("attempt", "int", ""),
    _f("seed", "int", ""),
    _f("settings", "object", "the resolved settings"),
    _f("settings_id", "str", ""),
    _f("configuration_id", "str", ""),
    _f("device", "str", "device name as the driver gives it, or 'cpu'"),
    _f("device_kind", "str", "cuda, rocm or cpu"),
    _f("torch", "str", "installed version"),
    _f("transformers", "str", "installed version"),
    _f(
        "capacity_mib",
        "int",
        "asked capacity; the device's total where the whole card was asked for; null on a CPU",
        True,
    ),
    _f("capacity_source", "str", "device or emulated; null on a CPU", True),
    _f(
        "effective_capacity_bytes",
        "int",
        "free bytes the CUDA runtime reports just before the child makes its context",
        True,
    ),
    _f("monitor_free_bytes", "int", "free bytes by the monitor at that moment", True),
    _f(
        "baseline_used_bytes",
        "int",
        "the monitor's used bytes at that moment; null on a CPU, where the child states its own "
        "in the fact baseline_process_bytes",
        True,
    ),
    _f("ballast_bytes", "int", "bytes held by the ballast process, its context included; 0 without ballast", True),
    _f("weights", "str", "random or pretrained"),
    _f("revision", "str", "immutable revision of pretrained weights", True),
    _f("start_method", "str", "forkserver or spawn"),
    _f("sampler_interval_ns", "int", "wanted sampling interval; null where the sampler was off", True),
    _f("time_limit_seconds", "int", "the trial's process group is killed after this"),
    _f("created_at", "str", "UTC time"),
    _f("plan_digest", "str", ""),
    _f("code_digest", "str", ""),
    _f("campaign", "str", ""),
    _f("allocation_id", "str", ""),
)
ENVIRONMENT = (
    _f("device_name", "str", ""),
    _f("device_digest", "str", "salted digest of the device's UUID", True),
    _f("driver_version", "str", "", True),
    _f("compute_capability", "str", "", True),
    _f("driver_total_bytes", "int", "total bytes as the CUDA runtime gives them", True),
    _f("monitor_total_bytes", "int", "total bytes as the monitor gives them", True),
    _f("torch", "str", ""),
    _f("cuda", "str", "", True),
    _f("cudnn", "str", "", True),
    _f("transformers", "str", ""),
    _f("peft", "str", "", True),
    _f("bitsandbytes", "str", "", True),
    _f("allocator_settings", "object", "read back from the allocator"),
    _f("python", "str", ""),
    _f("os", "str", ""),
    _f("host_memory_bytes", "int", ""),
    _f("host_cores", "int", ""),
)
# Every line of events.jsonl has t_ns and event; the other fields depend on the event.
EVENTS = {
    "stage_begin": (
        _f("stage", "str", "one of STAGES"),
        _f("step", "int", "0 while initializing, then 1, 2, ..."),
        _f("allocated_bytes", "int", ""),
        _f("reserved_bytes", "int", ""),
    ),
    "stage_end": (
        _f("stage", "str", ""),
        _f("step", "int", ""),
        _f("allocated_bytes", "int", "at the end"),
        _f("reserved_bytes", "int", "at the end"),
        _f("peak_allocated_bytes", "int", "since the stage began"),
        _f("peak_reserved_bytes", "int", "since the stage began"),
        _f("requested_bytes", "int", "at the end"),
        _f("peak_requested_bytes", "int", "since the stage began"),
        _f("alloc_retries", "int", "allocator retries so far"),
        _f("oom_count", "int", "allocator OOMs so far"),
        _f("tokens", "int", "positions the stage processed", True),
    ),
    "fact": (
        _f("name", "str", "kv_pool_bytes, parameters, trainable_parameters, adapter_bytes, ..."),
        _f("value", "any", "an integer or a string"),
    ),
    "downshift": (_f("logits_chunk", "int", "the smaller chunk that the step goes on with"),),
    "failure": (
        _f("stage", "str", ""),
        _f("step", "int", ""),
        _f("exception_types", "list", "type names, outermost first, causes after"),
        _f("message", "str", "message of the innermost cause"),
        _f("allocated_bytes", "int", "", True),
        _f("reserved_bytes", "int", "", True),
        _f("peak_allocated_bytes", "int", "since the stage began", True),
        _f("peak_reserved_bytes", "int", "since the stage began", True),
        _f("alloc_retries", "int", "", True),
        _f("oom_count", "int", "", True),
        _f("requested_alloc_bytes", "int", "the allocation that failed", True),
        _f("device_free_bytes", "int", "free bytes the driver reported at the failure", True),
        _f("reclaimable_bytes", "int", "cached bytes in wholly free segments that a retry could have returned", True),
    ),
    "finished": (_f("completed_steps", "int", ""),),
}
EVENT_COMMON = (_f("t_ns", "int", ""), _f("event", "str", "one of EVENTS"))
RESULT = (
    _f("status", "str", "one of STATUSES except interrupted"),
    _f("exit_code", "int", "", True),
    _f("signal", "int", "", True),
    _f("failure_class", "str", "one of FAILURE_CLASSES", True),
    _f("failure_stage", "str", "", True),
    _f("evidence", "str", "the line or fact that decided", True),
    _f("reason", "str", "why an attempt is ineligible, in words", True),
    _f("completed_steps", "int", ""),
    _f("wall_ns", "int", "start of the process to its end"),
    _f("device_ns", "int", "time the device was held for the attempt, ballast and clean-up included"),
    _f("samples", "int", "rows of memory.csv"),
    _f("median_interval_ns", "int", "achieved sampling interval", True),
    _f("max_interval_ns", "int", "", True),
    _f("ended_at", "str", "UTC time"),
)
# One line of predictions.jsonl. A method that gives no answer for a configuration says why in `refusal`, and its
# outputs are null. Where it predicts a memory failure, peaks are what was held until then.
PREDICTION = (
    _f("schema_version", "int", ""),
    _f("method", "str", "dry_run, the name of a statistical estimator, or the package name of a peer"),
    _f("method_version", "str", "another version may answer otherwise; the same one never does"),
    _f("frozen_at", "str", "UTC time, the same in every line of a file"),
    _f("configuration_id", "str", ""),
    _f("settings_id", "str", ""),
    _f("settings", "object", "the resolved settings"),
    _f("device", "str", "device name of the machine that is to measure"),
    _f("torch", "str", "major.minor on the machine that is to measure"),
    _f("transformers", "str", "major.minor on the machine that is to measure"),
    _f("own_torch", "str", "version that made the prediction; null where the method needs none", True),
    _f("own_transformers", "str", "version that made the prediction", True),
    _f("own_peft", "str", "version that made the prediction", True),
    _f("code_digest", "str", "SHA-256 over the package's files; null for a peer", True),
    _f("gpu_profile", "str", "name of the GPU profile; null where the method uses none", True),
    _f("gpu_profile_digest", "str", "SHA-256 of the GPU profile's file", True),
    _f("fitted_families", "list", "model families whose measurements the method was fitted to; empty: to none"),
    _f("refusal", "str", "why the method gives no answer", True),
    _f("capacity_bytes", "int", "capacity that the answer is for", True),
    _f("completes", "bool", "whether a trial would complete at this capacity", True),
    _f("label", "str", "label that three such trials would give; null below 4,096 MiB", True),
    _f("failure_stage", "str", "stage in which memory runs out", True),
    _f("failure", "str", "what runs out of memory", True),
    _f("peak_allocated_bytes", "int", "", True),
    _f("peak_reserved_bytes", "int", "", True),
    _f("peak_device_used_bytes", "int", "", True),
    _f("peak_stage", "str", "stage with the largest peak of allocated bytes, of equal ones the first of STAGES", True),
    _f("smallest_capacity_bytes", "int", "least capacity of the card at which a trial completes", True),
    _f("smallest_without_retries_bytes", "int", "the same without emptying the allocator's cache", True),
    _f("alloc_retries", "int", "", True),
    _f("stages", "list", "objects of PREDICTED_STAGE in the order in which stages begin"),
    _f("interval", "object", "name of an output -> [lowest, highest] bytes"),
)
PREDICTED_STAGE = (
    _f("stage", "str", ""),
    _f("peak_allocated_bytes", "int", "over all steps"),
    _f("peak_reserved_bytes", "int", "over all steps"),
    _f("peak_device_used_bytes", "int", "over all steps"),
    _f("is_complete", "bool", "false where memory runs out in it"),
)
INTERVALS = ("peak_reserved_bytes", "peak_device_used_bytes", "smallest_capacity_bytes")
LABELS = ("within_margin", "above_margin", "memory_failure")
WORKLOAD_FILE = "workload-{}.json"
"""`{}` is the engine, in letters, digits, '.' and '-'."""
WORKLOAD = (
    _f("schema_version", "int", ""),
    _f("workload", "str", "opd"),
    _f("pair", "str", "student and teacher: qwen3, smollm2, or tiny"),
    _f("engine", "str", "fitproof, or a peer's name and version"),
    _f("run", "str", "name of the run: its campaign, and what was set apart from the workload"),
    _f("device", "str", "device name as the driver gives it, or 'cpu'"),
    _f("created_at", "str", "UTC time"),
    _f("import_ns", "int", "start of the first process until the stack was imported", True),
    _f("recovery_pair_ns", "int", "start of the first process to the end of the comparison, imports included"),
    _f("adapter_bytes", "int", "files of the exported adapter", True),
    _f("run_bytes", "int", "all files that the uninterrupted run left, its checkpoints included", True),
    _f("is_trajectory_equal", "bool", "every rollout equal to the uninterrupted run's"),
    _f("is_adapter_equal", "bool", "every adapter tensor equal to the byte"),
    _f("is_optimizer_equal", "bool", "every optimizer tensor equal to the byte"),
    _f("is_state_equal", "bool", "every other field of the training state equal"),
    _f("is_adapter_loadable", "bool", "plain peft loads the exported adapter", True),
    _f("differences", "list", "one line for each tensor, field or step that differs"),
    _f("attempts", "object", "which attempts it was (WORKLOAD_ATTEMPTS); null for a peer", True),
    _f("figures", "object", "what the peer measured (WORKLOAD_FIGURES); null for our own, whose attempts say it", True),
)
WORKLOAD_ATTEMPTS = (
    _f("campaign", "str", ""),
    _f("panel", "str", "panel of the uninterrupted run"),
    _f("slot_id", "str", ""),
    _f("attempt", "int", ""),
    _f("resumed_panel", "str", "panel of the interrupted and resumed run"),
    _f("resumed_slot_id", "str", ""),
    _f("interrupted_attempt", "int", ""),
    _f("resumed_attempt", "int", ""),
)
# Times are medians over cycles 2 to the last; positions are response positions of one cycle.
WORKLOAD_FIGURES = (
    _f("positions", "int", "response positions of one cycle"),
    _f("rollout_ns", "int", "median"),
    _f("teacher_ns", "int", "median", True),
    _f("update_ns", "int", "median"),
    _f("cold_start_ns", "int", "construction of everything", True),
    _f("first_rollout_ns", "int", "start of construction to the end of the first rollout", True),
    _f("first_update_ns", "int", "start of construction to the end of the first update", True),
    _f("resume_load_ns", "int", "", True),
    _f("peak_allocated_bytes", "int", "", True),
    _f("peak_reserved_bytes", "int", "", True),
    _f("downshifts", "int", "batch downshifts on running out of memory", True),
    _f("teacher_cache_bytes", "int", "", True),
    _f("checkpoint_bytes", "int", "", True),
)
FILES = {"trial.json": TRIAL, "environment.json": ENVIRONMENT, "result.json": RESULT}
ATTEMPT_FILES = (
    "trial.json",
    "environment.json",
    "events.jsonl",
    "memory.csv",
    "stdout.log",
    "stderr.log",
    "result.json",
)

_KINDS = {"str": str, "int": int, "bool": bool, "object": dict, "list": list, "any": object}


def problems(record: object, spec: tuple[Field, ...], where: str) -> list[str]:
    """What is wrong with one raw JSON object: missing, unknown or mistyped fields, all at once, prefixed by `where`."""
    if not isinstance(record, dict):
        return [f"{where}: not a JSON object"]
    wanted = {f.name: f for f in spec}
    found = [f"{where}: missing field {name}" for name in wanted if name not in record]
    found += [f"{where}: unknown field {name}" for name in record if name not in wanted]
    for name, f in wanted.items():
        if name not in record:
            continue
        value = record[name]
        if value is None:
            if not f.nullable and f.kind != "any":
                found.append(f"{where}: {name} is null")
        elif not isinstance(value, _KINDS[f.kind]) or (f.kind == "int" and isinstance(value, bool)):
            found.append(f"{where}: {name} is {type(value).__name__}, expected {f.kind}")
        elif f.kind == "int" and not -(2**63) <= value < 2**63:
            found.append(f"{where}: {name} does not fit 64 bits")
    return found


def event_spec(event: object) -> tuple[Field, ...] | None:
    """All fields of one events.jsonl line of that kind, or None for an unknown kind."""
    own = EVENTS.get(event) if isinstance(event, str) else None
    return None if own is None else EVENT_COMMON + own
