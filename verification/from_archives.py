"""The raw side of the headline numbers: every archive is read again and reduced by this house's own rules."""

from collections import defaultdict
from dataclasses import dataclass, field

import polars as pl

from . import predictions, raw
from .archives import ArchiveError, Panel, RawAttempt, attempts
from .identity import Stack, configuration_id, settings_id, stack_of
from .release import Release
from .tables import ATTEMPTS, CONFIGURATIONS, PREDICTIONS, SLOTS, STAGES, TRIALS, Tables

SEEDS = 3
SUFFIX = ".tar.zst"
SlotKey = tuple[str, str, str, str]
"""panel, campaign, slot_id, configuration_id"""


@dataclass(kw_only=True, slots=True)
class Started:
    """One start in a ledger, with what its folder says (None where no folder or no trial.json was left)."""

    slot: SlotKey
    seed: int
    settings: dict
    stack: Stack
    number: int
    at: str
    archive: str
    folder: RawAttempt | None
    predictions_digest: str | None
    """Of the predictions that its plan names."""
    row: dict | None = None
    """Its row of trials, where it is eligible."""

    @property
    def status(self) -> str:
        return raw.status(self.folder) if self.folder else "interrupted"


@dataclass(kw_only=True, slots=True)
class Book:
    """Everything, over all archives."""

    started: list[Started] = field(default_factory=list)
    planned: dict[SlotKey, tuple[int, dict, Stack]] = field(default_factory=dict)
    """slot -> seed, settings, stack"""
    stages: list[dict] = field(default_factory=list)
    predictions: list[dict] = field(default_factory=list)
    """Lines of predictions.jsonl."""


def read_archives(release: Release) -> Tables:
    """Raises ArchiveError where an archive is not what the release says."""
    book = Book()
    for name, entry in sorted(release.archives.items()):
        _read_one(book, release, name, entry["sha256"])
    trials = _first_eligible(book)
    configurations = _configuration_rows(book, trials)
    labels = {row["configuration_id"]: row["label"] for row in configurations}
    return Tables(
        attempts=pl.DataFrame([_attempt_row(s) for s in book.started], schema=ATTEMPTS, orient="row"),
        slots=pl.DataFrame(_slot_rows(book), schema=SLOTS, orient="row"),
        trials=pl.DataFrame([t.row for t in trials], schema=TRIALS, orient="row"),
        stages=pl.DataFrame(book.stages, schema=STAGES, orient="row"),
        configurations=pl.DataFrame(configurations, schema=CONFIGURATIONS, orient="row"),
        predictions=pl.DataFrame(
            predictions.rows(book.predictions, _measured(book, trials, labels)), schema=PREDICTIONS, orient="row"
        ),
    )


def _read_one(book: Book, release: Release, name: str, sha256: str) -> None:
    """One archive: measure each eligible attempt while its samples are in memory, then follow the ledgers."""
    panels: dict[str, Panel] = {}
    folders: dict[tuple[str, str, int], RawAttempt] = {}
    rows: dict[tuple[str, str, int], dict] = {}
    for attempt in attempts(
        release.root / "releases" / name, sha256=sha256, panels=panels, predictions=book.predictions
    ):
        if attempt.trial is None:
            continue
        place = attempt.panel, attempt.slot_id, attempt.number
        folders[place] = attempt
        if raw.status(attempt) in raw.ELIGIBLE:
            measured = raw.measure(attempt)
            rows[place] = raw.trial_row(attempt, measured)
            book.stages += [{"stage": stage, **row} for stage, row in raw.stage_peaks(measured).items()]
        attempt.memory_csv, attempt.events = None, []  # numbers are kept, evidence is not
    for panel, content in panels.items():
        slots = {slot["slot_id"]: slot for slot in content.plan["slots"]}
        own = {place[1:]: folder for place, folder in folders.items() if place[0] == panel}
        runs = set()
        for start in (line for line in content.ledger if line["event"] == "start"):
            place = panel, start["slot_id"], start["attempt"]
            folder, slot = folders.pop(place, None), slots[start["slot_id"]]
            stack = stack_of(folder.trial) if folder else _stack_beside(own, start["allocation_id"])
            runs.add((start["campaign"], stack))
            key = panel, start["campaign"], start["slot_id"], configuration_id(slot["settings"], stack)
            book.started.append(
                Started(
                    slot=key, seed=slot["seed"], settings=slot["settings"], stack=stack, number=start["attempt"],
                    at=start["at"], archive=name.removesuffix(SUFFIX), folder=folder, row=rows.get(place),
                    predictions_digest=content.plan["predictions_digest"],
                )
            )  # fmt: skip
        for campaign, stack in runs:
            for slot in slots.values():
                key = panel, campaign, slot["slot_id"], configuration_id(slot["settings"], stack)
                book.planned[key] = slot["seed"], slot["settings"], stack
    if folders:
        raise ArchiveError(f"{name}: {'/'.join(map(str, next(iter(folders))))} has no start in its ledger")


def _stack_beside(own: dict[tuple[str, int], RawAttempt], allocation: str) -> Stack:
    """The stack of an attempt that left no trial.json: that of its allocation, or else of its panel's first attempt."""
    same = [folder for _, folder in sorted(own.items()) if folder.trial["allocation_id"] == allocation]
    return stack_of((same or [own[min(own)]])[0].trial)


def _by_slot(book: Book) -> dict[SlotKey, list[Started]]:
    slots: dict[SlotKey, list[Started]] = defaultdict(list)
    for started in sorted(book.started, key=lambda s: s.number):
        slots[started.slot].append(started)
    return slots


def _first_eligible(book: Book) -> list[Started]:
    """One trial a slot; its row learns the slot it belongs to."""
    trials = []
    for key, tries in _by_slot(book).items():
        trial = next((t for t in tries if t.row is not None), None)
        if trial is not None:
            trial.row |= dict(zip(("panel", "campaign", "slot_id", "configuration_id"), key, strict=True))
            trial.row |= {"seed": trial.seed, "archive": trial.archive}
            trials.append(trial)
    return trials


def _attempt_row(started: Started) -> dict:
    result = (started.folder.result if started.folder else None) or {}
    names = ("panel", "campaign", "slot_id", "configuration_id")
    return {**dict(zip(names, started.slot, strict=True)), "attempt_number": started.number, "status": started.status,
            "failure_class": result.get("failure_class"), "archive": started.archive,
            "device_ns": result.get("device_ns")}  # fmt: skip


def _slot_rows(book: Book) -> list[dict]:
    tried, rows = _by_slot(book), []
    for key, (seed, _, _) in book.planned.items():
        statuses = [t.status for t in tried.get(key, [])]
        if "completed" in statuses:
            state = "completed"
        elif "memory_failure" in statuses:
            state = "failed"
        else:
            state = ("ineligible" if "ineligible" in statuses else "interrupted") if statuses else "not started"
        rows.append({**dict(zip(("panel", "campaign", "slot_id", "configuration_id"), key, strict=True)),
                     "seed": seed, "state": state})  # fmt: skip
    return rows


def _of_first_campaign(book: Book, trials: list[Started]) -> dict[str, list[Started]]:
    """configuration_id -> its trials in the campaign whose first attempt started first."""
    first_start: dict[str, tuple[str, str]] = {}
    for started in book.started:
        identity = started.slot[3]
        first_start[identity] = min(first_start.get(identity, ("~", "")), (started.at, started.slot[1]))
    eligible = defaultdict(list)
    for trial in trials:
        if trial.slot[1] == first_start[trial.slot[3]][1]:
            eligible[trial.slot[3]].append(trial)
    return eligible


def _measured(book: Book, trials: list[Started], labels: dict[str, str | None]) -> dict[str, dict]:
    """What predictions are compared with: label, failure, digests named and largest peaks of each configuration."""
    return {
        identity: {
            "label": labels[identity],
            "failed": any(t.status == "memory_failure" for t in own),
            "digests": {t.predictions_digest for t in own},
            **{peak: raw.largest(t.row[peak] for t in own) for peak in predictions.ERRORS.values()},
        }
        for identity, own in _of_first_campaign(book, trials).items()
    }


def _configuration_rows(book: Book, trials: list[Started]) -> list[dict]:
    eligible = _of_first_campaign(book, trials)
    capacities: dict[str, list[int]] = defaultdict(list)  # of all its attempts that say one
    for started in book.started:
        if started.folder and started.folder.trial["capacity_mib"] is not None:
            capacities[started.slot[3]].append(started.folder.trial["capacity_mib"])
    described = {key[3]: (settings, stack) for key, (_, settings, stack) in book.planned.items()}
    rows = []
    for identity, (settings, stack) in described.items():
        chosen = _one_per_seed(eligible[identity])[:SEEDS]
        limit = min((v for t in chosen if (v := raw.limit_bytes(t.folder.trial)) is not None), default=None)
        asked = min(capacities[identity], default=settings["capacity_mib"])
        is_small = asked is not None and asked < raw.SMALLEST_LABELLED_MIB
        completed = [t.row["peak_device_used_bytes"] for t in eligible[identity] if t.status == "completed"]
        rows.append({
            "configuration_id": identity, "settings_id": settings_id(settings), "model_id": settings["model_id"],
            "device": stack[0], "label": None if stack[1] == "cpu" or is_small else _label(chosen, limit),
            "single_run_state": chosen[0].row["state"] if chosen else None, "limit_bytes": limit,
            "max_completed_peak_bytes": raw.largest(completed),
        })  # fmt: skip
    return rows


def _one_per_seed(trials: list[Started]) -> list[Started]:
    """By seed; where several trials of the first campaign share one, that which started first."""
    by_seed: dict[int, Started] = {}
    for trial in sorted(trials, key=lambda t: (t.seed, t.at, t.slot)):
        by_seed.setdefault(trial.seed, trial)
    return list(by_seed.values())


def _label(chosen: list[Started], limit: int | None) -> str:
    """The label over the trials of the up to three smallest seeds, all against one limit, the smallest of theirs."""
    peaks = [t.row["peak_device_used_bytes"] for t in chosen]
    if len(chosen) < SEEDS:
        return "unresolved"
    if any(t.status == "memory_failure" for t in chosen):
        return "memory_failure"
    if None in peaks:
        return "unresolved"
    return "within_margin" if max(peaks) <= limit else "above_margin"
