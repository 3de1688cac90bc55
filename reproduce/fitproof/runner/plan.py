"""Frozen panels: a plan is written once, carries its digest, and is refused by any other code than made it."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from ..code import code_digest
from ..errors import CheckFailed, EvidenceError, UsageError
from ..schema.canonical import canonical_json, sha256_hex, short_id
from ..schema.records import PLAN, SCHEMA_VERSION, SLOT, problems
from ..schema.settings import ADDED_LATER, Settings
from .files import write_json

NEW_PLAN = "fitproof plan PANEL -o plan.json  # a frozen plan is never edited"
DEVICE_KINDS = ("cuda", "rocm", "cpu")
_PANEL_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", re.ASCII)
LONGEST_SLOT_SECONDS = 540  # a slot must fit a ten-minute allocation with its start-up


@dataclass(frozen=True, kw_only=True, slots=True)
class Slot:
    """One planned (configuration, seed). `estimate_seconds` are expected device seconds of the whole attempt."""

    settings: Settings
    seed: int
    estimate_seconds: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Panel:
    """A named set of slots. `device_kind`: cuda, rocm or cpu. `reason`: what for, and why these capacities."""

    name: str
    reason: str
    device_kind: str
    slots: tuple[Slot, ...]

    def slot_id(self, slot: Slot) -> str:
        return _slot_id(self.name, slot)


def _slot_id(panel: str, slot: Slot) -> str:
    return short_id({"panel": panel, "settings": slot.settings.identity(), "seed": slot.seed})


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """A frozen panel as plan.json holds it. `slots` maps slot_id to slot, in order."""

    panel: str
    reason: str
    device_kind: str
    code_digest: str
    predictions_digest: str | None
    slots: dict[str, Slot]
    digest: str

    @property
    def estimate_seconds(self) -> int:
        return sum(slot.estimate_seconds for slot in self.slots.values())

    def record(self) -> dict:
        """The plan.json object (records.PLAN)."""
        slots = [
            {
                "slot_id": slot_id,
                "seed": s.seed,
                "settings": s.settings.identity(),
                "estimate_seconds": s.estimate_seconds,
            }
            for slot_id, s in self.slots.items()
        ]
        return {
            "schema_version": SCHEMA_VERSION,
            "panel": self.panel,
            "reason": self.reason,
            "device_kind": self.device_kind,
            "code_digest": self.code_digest,
            "predictions_digest": self.predictions_digest,
            "slots": slots,
            "digest": self.digest,
        }


def freeze(panel: Panel, *, predictions_digest: str | None = None) -> Plan:
    """A plan of `panel` for the code that runs now. Raises UsageError for empty panels, duplicates and long slots."""
    if not panel.slots:
        raise UsageError(f"panel {panel.name}", found="no slots", expected="at least one slot")
    slots: dict[str, Slot] = {}
    for slot in panel.slots:
        slot_id = panel.slot_id(slot)
        if slot_id in slots:
            raise UsageError(
                f"panel {panel.name}",
                found=f"slot {slot_id} twice: {describe(slot)}",
                expected="one slot per (configuration, seed)",
            )
        slots[slot_id] = slot
    long = [s for s in panel.slots if s.estimate_seconds > LONGEST_SLOT_SECONDS]
    if long:
        raise UsageError(
            f"panel {panel.name}",
            found="; ".join(f"{describe(s)} needs about {s.estimate_seconds} s" for s in long),
            expected=f"at most {LONGEST_SLOT_SECONDS} s a slot, so that each fits a ten-minute allocation",
            hint="decode_coverage=edges, fewer steps or a shorter workload",
        )
    fields = dict(
        panel=panel.name,
        reason=panel.reason,
        device_kind=panel.device_kind,
        code_digest=code_digest(),
        predictions_digest=predictions_digest,
        slots=slots,
    )
    return Plan(**fields, digest=_digest(Plan(**fields, digest="").record()))


def save_plan(plan: Plan, path: Path) -> None:
    """Write plan.json, whole or not at all. Raises UsageError where `path` cannot be a file."""
    refuse_output(path)
    write_json(path, plan.record())


def refuse_output(path: Path) -> None:
    """Raise UsageError where `path` cannot be a file. Predicting a panel takes minutes: ask before."""
    if path.is_dir() or not path.parent.is_dir():
        found = "a folder" if path.is_dir() else f"no folder {path.parent}"
        raise UsageError(f"plan {path}", found=found, expected="a file in a folder that exists", hint="-o plan.json")


def load_plan(path: Path, *, check_code: bool = True) -> Plan:
    """Read and verify plan.json. Raises UsageError (no such file), EvidenceError (altered or malformed), CheckFailed
    (made by other code; `check_code=False` skips only that, for looking at a plan without running it).
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        found = "no such file" if isinstance(error, FileNotFoundError) else error.strerror or str(error)
        raise UsageError(
            f"plan {path}",
            found=found,
            expected="a plan file, or a panel that `fitproof plan` knows",
            hint="fitproof plan quick -o plan.json",
        ) from None
    except (ValueError, RecursionError) as error:
        raise EvidenceError(f"plan {path}", found=str(error), expected="one JSON document", hint=NEW_PLAN) from None
    plan = parse_plan(record, where=str(path))
    if check_code:
        require_own_code(plan)
    return plan


def parse_plan(record: object, *, where: str) -> Plan:
    """A Plan from its JSON object, its digest verified. Raises EvidenceError."""
    wrong = problems(record, PLAN, where)
    if not wrong and record["schema_version"] != SCHEMA_VERSION:
        wrong = [f"{where}: schema_version {record['schema_version']}, this code knows {SCHEMA_VERSION}"]
    if not wrong:
        wrong = [p for i, s in enumerate(record["slots"]) for p in problems(s, SLOT, f"{where}: slot {i + 1}")]
    if wrong:
        expected = f"a plan of schema version {SCHEMA_VERSION}"
        raise EvidenceError(where, found="; ".join(wrong), expected=expected, hint=NEW_PLAN)
    try:
        digest = _digest(record)
    except ValueError as error:
        raise EvidenceError(where, found=str(error), expected="canonical JSON values") from None
    if digest != record["digest"]:
        raise EvidenceError(
            where,
            found=f"content digest {digest}",
            expected=f"its own digest {record['digest']}",
            hint=NEW_PLAN,
        )
    slots = _slots(record, where)
    return Plan(
        panel=record["panel"],
        reason=record["reason"],
        device_kind=record["device_kind"],
        code_digest=record["code_digest"],
        predictions_digest=record["predictions_digest"],
        slots=slots,
        digest=record["digest"],
    )


def _slots(record: dict, where: str) -> dict[str, Slot]:
    """The slots of a plan whose digest is right, by id. Raises EvidenceError for what no `freeze` gives.

    Whoever edits a plan can compute its digest again, and its names become names of folders.
    """
    wrong = []
    if not _PANEL_NAME.fullmatch(record["panel"]):
        wrong.append(f"panel {record['panel']!r} is no name of letters, digits, '_', '-' and '.'")
    if record["device_kind"] not in DEVICE_KINDS:
        wrong.append(f"device_kind {record['device_kind']!r} is none of {', '.join(DEVICE_KINDS)}")
    if not record["slots"]:
        wrong.append("no slots")
    slots: dict[str, Slot] = {}
    for number, item in enumerate(record["slots"], 1):
        try:
            settings = settings_from(item["settings"])
        except (TypeError, UsageError) as error:  # an unknown or a missing setting; an impossible value
            wrong.append(f"slot {number}: " + " ".join(str(error).split()))
            continue
        slot = Slot(settings=settings, seed=item["seed"], estimate_seconds=item["estimate_seconds"])
        own = _slot_id(record["panel"], slot)
        if item["slot_id"] != own:
            wrong.append(f"slot {number}: slot_id {item['slot_id']!r}, but its settings and seed give {own}")
        if own in slots:
            wrong.append(f"slot {number}: slot_id {own} twice")
        if slot.seed < 0 or slot.estimate_seconds <= 0:
            wrong.append(f"slot {number}: seed {slot.seed}, estimate_seconds {slot.estimate_seconds}")
        slots[own] = slot
    if wrong:
        raise EvidenceError(
            where, found="; ".join(wrong), expected="a plan as `fitproof plan` writes it", hint=NEW_PLAN
        )
    return slots


def require_own_code(plan: Plan) -> None:
    """Raise CheckFailed unless the code that runs now made the plan: what a trial does is part of what was frozen."""
    own = code_digest()
    if own != plan.code_digest:
        raise CheckFailed(
            f"plan of panel {plan.panel}",
            found=f"made by code {plan.code_digest[:16]}",
            expected=f"made by the installed code {own[:16]}",
            hint=f"fitproof plan {plan.panel} -o plan.json  # or check out the code that made it",
        )


def settings_from(identity: dict) -> Settings:
    """Settings from an identity object; settings added later take the value that means the old behaviour."""
    return Settings(**{**ADDED_LATER, **identity})


def describe(slot: Slot) -> str:
    """One slot in a few words, for progress and errors."""
    s = slot.settings
    parts = [s.model_id.split("/")[1], s.workload, s.adaptation, s.rollout_engine, f"micro-batch {s.actor_micro_batch}"]
    if s.capacity_mib:
        parts.append(f"{s.capacity_mib} MiB")
    return " ".join([*parts, f"seed {slot.seed}"])


def _digest(record: dict) -> str:
    return sha256_hex(canonical_json({k: v for k, v in record.items() if k != "digest"}))
