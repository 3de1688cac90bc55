"""Plans and ledgers of one archive, checked against each other and against the attempt folders."""

from dataclasses import dataclass, field

from ..schema import records
from ..schema.canonical import canonical_json
from .attempts import Attempt
from .documents import RecordError, checked, one_of, strict_json, utc_text, whole_lines
from .identities import Known, SettingsBook, Stack, plan_digest, slot_id


@dataclass(slots=True)
class Panel:
    """One panel as one archive holds it. `attempts`: (slot_id, attempt number) -> folder."""

    name: str
    plan: bytes | None = None
    ledger: bytes | None = None
    attempts: dict[tuple[str, int], Attempt | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PanelRows:
    """Rows of raw_slots and raw_attempts."""

    slots: list[dict]
    attempts: list[dict]


def panel_rows(panel: Panel, archive: str, file_name: str, book: SettingsBook) -> PanelRows:
    """Check one panel of one archive and make its rows. Raises EvidenceError.

    A plan of which nothing was started in the archive gives no rows: neither device nor stack is known.
    """
    where = f"{file_name}: {panel.name}"
    if panel.plan is None:
        raise RecordError(where, found="no plan.json", expected="plan.json beside the slots")
    plan, slots = _read_plan(panel.plan, panel.name, f"{where}/plan.json", book)
    starts = _read_ledger(panel.ledger or b"", f"{where}/ledger.jsonl")
    for place, attempt in panel.attempts.items():
        if place not in starts:
            raise RecordError(
                f"{where}/{place[0]}/attempt-{place[1]}", found="an attempt without a start in the ledger",
                expected=f"a start line in {panel.name}/ledger.jsonl",
            )  # fmt: skip
        if attempt is not None:
            _check_attempt(attempt, plan, slots, starts[place][0])
    for place, (start, end) in starts.items():
        if place[0] not in slots:
            raise RecordError(f"{where}/ledger.jsonl", found=f"slot {place[0]}", expected="a slot of plan.json")
        _check_end(panel.attempts.get(place), start, end, f"{where}/{place[0]}/attempt-{place[1]}")
    stacks = _stacks(panel, starts, where) if starts else {}
    attempts = []
    for place, (start, end) in starts.items():
        folder = panel.attempts.get(place)
        known = slots[place[0]][1]
        attempts.append({
            "archive": archive, "panel": panel.name, "campaign": start["campaign"], "slot_id": place[0],
            "attempt_number": place[1], "configuration_id": book.configuration_id(known, stacks[place]),
            "started_at": start["at"], "ledger_ended_at": end["at"] if end else None,
            "attempt_key": folder.key if folder else None,
        })  # fmt: skip
    runs = sorted({(starts[place][0]["campaign"], stack) for place, stack in stacks.items()}, key=repr)
    return PanelRows(_slot_rows(plan, slots, runs, archive, book), attempts)


def _read_plan(data: bytes, panel: str, where: str, book: SettingsBook) -> tuple[dict, dict[str, tuple[dict, Known]]]:
    plan = strict_json(data, where)
    if isinstance(plan, dict) and plan.get("schema_version") != records.SCHEMA_VERSION:
        found = f"schema_version {plan.get('schema_version')!r}"
        raise RecordError(where, found=found, expected=f"schema_version {records.SCHEMA_VERSION}")
    checked(plan, records.PLAN, where)
    if plan["panel"] != panel:
        raise RecordError(where, found=f"panel {plan['panel']!r}", expected=f"{panel!r}, as its path")
    slots: dict[str, tuple[dict, Known]] = {}
    name = canonical_json(panel)
    for number, slot in enumerate(plan["slots"], start=1):
        place = f"{where} slot {number}"
        checked(slot, records.SLOT, place)
        known = book.look_up(slot["settings"], place)
        expected = slot_id(name, known, slot["seed"])
        if slot["slot_id"] != expected or expected in slots:
            found = f"slot_id {slot['slot_id']}" + (" twice" if expected in slots else "")
            raise RecordError(
                place, found=found, expected=f"{expected}, recomputed from panel, settings and seed, once"
            )
        slots[expected] = (slot, known)
    digest = plan_digest(plan, [known for _, known in slots.values()], where)
    if digest != plan["digest"]:
        raise RecordError(where, found=f"content digest {digest}", expected=f"its own digest {plan['digest']}")
    return plan, slots


def _read_ledger(data: bytes, where: str) -> dict[tuple[str, int], tuple[dict, dict | None]]:
    """(slot_id, attempt) -> its start and its end. A torn last line was never relied on and is dropped."""
    found: dict[tuple[str, int], tuple[dict, dict | None]] = {}
    ends: dict[tuple[str, int], tuple[dict, str]] = {}
    for number, line in enumerate(whole_lines(data, where, may_be_torn=True).split(b"\n")[:-1], start=1):
        place = f"{where} line {number}"
        record = checked(strict_json(line, place), records.LEDGER, place)
        one_of(record, "event", ("start", "end"), place)
        utc_text(record, "at", place)
        key = (record["slot_id"], record["attempt"])
        if key in (found if record["event"] == "start" else ends):
            raise RecordError(
                place, found=f"a second {record['event']} of slot {key[0]}, attempt {key[1]}", expected="one"
            )
        if record["event"] == "start":
            found[key] = (record, None)
        else:
            ends[key] = (record, place)
    for key, (end, place) in ends.items():
        if key not in found:
            raise RecordError(place, found=f"an end of slot {key[0]}, attempt {key[1]}", expected="its start before it")
        one_of(end, "status", records.STATUSES, place)
        one_of(end, "failure_class", (None, *records.FAILURE_CLASSES), place)
        start = found[key][0]
        for name in ("allocation_id", "campaign"):
            # An interrupted attempt may be closed by the supervisor that goes on: another allocation.
            if end[name] != start[name] and not (name == "allocation_id" and end["status"] == "interrupted"):
                raise RecordError(place, found=f"{name} {end[name]!r}", expected=f"{start[name]!r}, as its start")
        found[key] = (start, end)
    return found


def _check_attempt(a: Attempt, plan: dict, slots: dict[str, tuple[dict, Known]], start: dict) -> None:
    where = f"{a.where}/trial.json"
    if a.slot_id not in slots:
        raise RecordError(where, found=f"slot {a.slot_id}", expected="a slot of plan.json")
    slot, known = slots[a.slot_id]
    if a.known.key != known.key or a.seed != slot["seed"]:
        raise RecordError(
            where, found="settings or seed that differ from the plan's slot", expected="those of plan.json"
        )
    stated = {"plan_digest": (a.plan_digest, plan["digest"], "plan.json"),
              "code_digest": (a.code_digest, plan["code_digest"], "plan.json"),
              "campaign": (a.campaign, start["campaign"], "its start in the ledger"),
              "allocation_id": (a.allocation_id, start["allocation_id"], "its start in the ledger")}  # fmt: skip
    for name, (found, expected, source) in stated.items():
        if found != expected:
            raise RecordError(where, found=f"{name} {found!r}", expected=f"{expected!r}, as in {source}")


def _check_end(attempt: Attempt | None, start: dict, end: dict | None, where: str) -> None:
    """The ledger's end and result.json say the same; a result may lack its end where the supervisor died in between."""
    status = attempt.status if attempt else None
    if end is None or (status is None and end["status"] == "interrupted"):
        return
    if (status, attempt.failure_class if attempt else None) != (end["status"], end["failure_class"]):
        found = f"result.json with status {status}" if status else "no result.json"
        raise RecordError(
            where, found=found, expected=f"{end['status']} {end['failure_class']}, as the ledger's end says"
        )


def _stacks(panel: Panel, starts: dict, where: str) -> dict[tuple[str, int], Stack]:
    """The stack of every started attempt: its own, or where no trial.json was left that of its allocation or panel."""
    known = {place: a for place, a in panel.attempts.items() if a is not None}
    if not known:
        raise RecordError(
            where, found="no attempt with a trial.json", expected="at least one, to know device and stack"
        )
    by_allocation = {a.allocation_id: a.stack for _, a in sorted(known.items(), reverse=True)}
    first = known[min(known)].stack
    return {
        place: known[place].stack if place in known else by_allocation.get(start["allocation_id"], first)
        for place, (start, _) in starts.items()
    }


def _slot_rows(plan: dict, slots: dict, runs: list[tuple[str, Stack]], archive: str, book: SettingsBook) -> list[dict]:
    return [
        {
            "archive": archive, "panel": plan["panel"], "campaign": campaign, "slot_id": slot_id, "slot_number": number,
            "seed": slot["seed"], "estimate_seconds": slot["estimate_seconds"], "settings_key": known.key,
            "configuration_id": book.configuration_id(known, stack), "device": stack.device,
            "device_kind": stack.device_kind, "torch_version": stack.torch, "transformers_version": stack.transformers,
            "plan_digest": plan["digest"], "predictions_digest": plan["predictions_digest"],
        }
        for campaign, stack in runs
        for number, (slot_id, (slot, known)) in enumerate(slots.items(), start=1)
    ]  # fmt: skip
