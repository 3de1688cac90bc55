"""Frozen panels: a plan is written once, carries its digest, and is refused by any other code than made it."""

import json
from dataclasses import dataclass
from pathlib import Path

from ..code import code_digest
from ..errors import CheckFailed, EvidenceError, UsageError
from ..schema.canonical import canonical_json, sha256_hex, short_id
from ..schema.records import PLAN, SCHEMA_VERSION, SLOT, problems
from ..schema.settings import ADDED_LATER, Settings
from .files import write_json

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
        return short_id({"panel": self.name, "settings": slot.settings.identity(), "seed": slot.seed})


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
    write_json(path, plan.record())


def load_plan(path: Path, *, check_code: bool = True) -> Plan:
    """Read and verify plan.json. Raises UsageError (no such file), EvidenceError (altered or malformed), CheckFailed
    (made by other code; `check_code=False` skips only that, for looking at a plan without running it).
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"plan {path}", found="no such file", hint="fitproof plan quick -o plan.json") from None
    except ValueError as error:
        raise EvidenceError(f"plan {path}", found=str(error), expected="one JSON document") from None
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
        raise EvidenceError(where, found="; ".join(wrong), expected="a plan of schema version 1")
    try:
        digest = _digest(record)
    except ValueError as error:
        raise EvidenceError(where, found=str(error), expected="canonical JSON values") from None
    if digest != record["digest"]:
        raise EvidenceError(
            where,
            found=f"content digest {digest}",
            expected=f"its own digest {record['digest']}",
            hint="a frozen plan is never edited: make a new one with `fitproof plan`",
        )
    slots = {
        s["slot_id"]: Slot(
            settings=settings_from(s["settings"]), seed=s["seed"], estimate_seconds=s["estimate_seconds"]
        )
        for s in record["slots"]
    }
    return Plan(
        panel=record["panel"],
        reason=record["reason"],
        device_kind=record["device_kind"],
        code_digest=record["code_digest"],
        predictions_digest=record["predictions_digest"],
        slots=slots,
        digest=record["digest"],
    )


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
