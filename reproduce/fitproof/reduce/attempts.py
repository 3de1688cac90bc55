"""Attempt folders as they stream out of an archive: parsed, checked in themselves, and collected into batches."""

from dataclasses import dataclass, field

from ..schema import records
from .documents import RecordError, checked, one_of, strict_json, utc_text
from .identities import Known, SettingsBook, Stack, stack_of
from .samples import Lines
from .thinning import Trace

WEIGHTS = ("random", "pretrained")
DEVICE_KINDS = ("cuda", "rocm", "cpu")
DOCUMENT_TABLES = ("raw_slots", "raw_attempts", "raw_trials", "raw_environments", "raw_results", "raw_workloads")
ENDED = tuple(s for s in records.STATUSES if s != "interrupted")
# What a finished measurement must have left behind; a killed attempt may lack any of it.
OF_COMPLETED = ("environment.json", "events.jsonl")


@dataclass(slots=True)
class Folder:
    """The members of one attempt folder. `where` is 'archive: panel/slot/attempt-n'."""

    where: str
    panel: str
    slot_id: str
    attempt: int
    files: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Attempt:
    """What the checks across records need to know of one attempt folder."""

    key: int
    where: str
    slot_id: str
    attempt: int
    seed: int
    campaign: str
    allocation_id: str
    plan_digest: str
    code_digest: str
    known: Known
    stack: Stack
    status: str | None
    """Of result.json; None where there is none."""
    failure_class: str | None


@dataclass(slots=True)
class Batch:
    """What waits to be loaded: rows of the raw tables, and traces as bytes."""

    tables: dict[str, list[dict]] = field(default_factory=lambda: {name: [] for name in DOCUMENT_TABLES})
    events: list[Lines] = field(default_factory=list)
    memory: list[Lines] = field(default_factory=list)
    traces: list[Trace] = field(default_factory=list)
    bytes: int = 0

    def add(self, folder: Folder, key: int, book: SettingsBook) -> Attempt | None:
        """Parse one folder. None where no trial.json was written: then the ledger is all there is."""
        documents = {
            name: checked(strict_json(folder.files[name], f"{folder.where}/{name}"), spec, f"{folder.where}/{name}")
            for name, spec in records.FILES.items()
            if name in folder.files
        }
        result = documents.get("result.json")
        if result is not None:
            _check_result(result, folder)
        if "trial.json" not in documents:
            present = sorted(set(folder.files) - {"stdout.log", "stderr.log"})
            if present:
                raise RecordError(folder.where, found=f"{', '.join(present)} but no trial.json", expected="trial.json")
            return None
        trial = documents["trial.json"]
        known = _check_trial(trial, folder, book)
        for name, table in (("trial", "raw_trials"), ("environment", "raw_environments"), ("result", "raw_results")):
            if f"{name}.json" in documents:
                self.tables[table].append({"attempt_key": key, **documents[f"{name}.json"]})
        self.traces.append(Trace(key, trial["device_kind"] == "cpu", trial["baseline_used_bytes"]))
        may_be_torn = result is None or result["signal"] is not None or result["failure_class"] == "timeout"
        for name, lines in (("events.jsonl", self.events), ("memory.csv", self.memory)):
            if name in folder.files:
                lines.append(Lines(key, f"{folder.where}/{name}", folder.files[name], may_be_torn))
                self.bytes += len(folder.files[name])
        return Attempt(
            key, folder.where, folder.slot_id, folder.attempt, trial["seed"], trial["campaign"], trial["allocation_id"],
            trial["plan_digest"], trial["code_digest"], known, stack_of(trial),
            result["status"] if result else None, result["failure_class"] if result else None,
        )  # fmt: skip


def _check_trial(trial: dict, folder: Folder, book: SettingsBook) -> Known:
    where = f"{folder.where}/trial.json"
    one_of(trial, "schema_version", (records.SCHEMA_VERSION,), where)
    one_of(trial, "execution", ("measured",), where)  # simulated runs are predictions, never rows of these views
    one_of(trial, "weights", WEIGHTS, where)
    one_of(trial, "device_kind", DEVICE_KINDS, where)
    utc_text(trial, "created_at", where)
    for name in ("panel", "slot_id", "attempt"):
        if trial[name] != getattr(folder, name):
            raise RecordError(
                where, found=f"{name} {trial[name]!r}", expected=f"{getattr(folder, name)!r}, as its path"
            )
    known = book.look_up(trial["settings"], where)
    ids = {"settings_id": known.settings_id, "configuration_id": book.configuration_id(known, stack_of(trial))}
    for name, expected in ids.items():
        if trial[name] != expected:
            raise RecordError(where, found=f"{name} {trial[name]}", expected=f"{expected}, recomputed from its fields")
    return known


def _check_result(result: dict, folder: Folder) -> None:
    where = f"{folder.where}/result.json"
    one_of(result, "status", ENDED, where)
    one_of(result, "failure_class", (None, *records.FAILURE_CLASSES), where)
    one_of(result, "failure_stage", (None, *records.STAGES), where)
    utc_text(result, "ended_at", where)
    wanted = {
        "completed": result["failure_class"] is None,
        "memory_failure": result["failure_class"] == "device_memory",
        "ineligible": result["failure_class"] != "device_memory",
    }
    if not wanted[result["status"]]:
        found = f"status {result['status']} with failure_class {result['failure_class']}"
        raise RecordError(where, found=found, expected="device_memory for memory_failure only, null for completed")
    missing = [name for name in ("trial.json", *OF_COMPLETED) if name not in folder.files]
    if result["status"] == "completed" and missing:
        raise RecordError(folder.where, found=f"completed without {', '.join(missing)}", expected="the whole record")
