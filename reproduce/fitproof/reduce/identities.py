"""Settings and ids, recomputed from what a raw record says. Equal settings are checked and hashed once."""

import json
from dataclasses import dataclass, field

from ..errors import UsageError
from ..schema.canonical import MAX_EXACT_INTEGER, canonical_json, sha256_hex, short_id
from ..schema.settings import ADDED_LATER, FIELD_NAMES, NOT_IN_SETTINGS_ID, Settings, major_minor
from .documents import RecordError


@dataclass(frozen=True, slots=True)
class Known:
    """Checked settings with what was computed from them. `key` identifies them whole, capacity and steps included."""

    key: str
    settings: Settings
    settings_id: str
    canonical: bytes
    """Canonical JSON of the record's own object."""
    identity: bytes
    """Canonical JSON of the identity, from which ids are made."""


@dataclass(frozen=True, slots=True)
class Stack:
    """What besides the settings makes a configuration: device name, and major.minor of torch and transformers."""

    device: str
    device_kind: str
    torch: str
    transformers: str


@dataclass(slots=True)
class SettingsBook:
    """All settings seen in one reduction."""

    known: dict[str, Known] = field(default_factory=dict)
    _by_record: dict[tuple, Known] = field(default_factory=dict)
    _configurations: dict[tuple[str, Stack], str] = field(default_factory=dict)

    def look_up(self, record: dict, where: str) -> Known:
        """The settings of a raw object. Raises EvidenceError where they are unknown, incomplete or inconsistent."""
        values = tuple(record.values())
        fingerprint = (tuple(record), values, tuple(map(type, values)))  # True is not 1 here
        try:
            if fingerprint in self._by_record:
                return self._by_record[fingerprint]
            settings = Settings(**{**ADDED_LATER, **record})
            canonical = flat_canonical(record)
        except (TypeError, ValueError, UsageError) as error:
            found = getattr(error, "found", None) or str(error)
            raise RecordError(where, found=f"settings: {found}", expected="resolved settings of this schema") from None
        whole = settings.identity()
        is_whole = len(whole) == len(record) and all(whole.get(name, whole) is v for name, v in record.items())
        identity = canonical if is_whole else flat_canonical(whole)
        core = flat_canonical({k: v for k, v in whole.items() if k not in NOT_IN_SETTINGS_ID})
        known = Known(sha256_hex(identity)[:16], settings, sha256_hex(core)[:16], canonical, identity)
        self._by_record[fingerprint] = known
        return self.known.setdefault(known.key, known)

    def configuration_id(self, known: Known, stack: Stack) -> str:
        key = (known.key, stack)
        if key not in self._configurations:
            rest = {name: getattr(known.settings, name) for name in NOT_IN_SETTINGS_ID}
            software = {"device": stack.device, "torch": stack.torch, "transformers": stack.transformers}
            self._configurations[key] = short_id({"settings_id": known.settings_id, **rest, **software})
        return self._configurations[key]

    def rows(self) -> list[dict]:
        """One row a Settings: its key and id, the family, every setting."""
        return [
            {
                "settings_key": known.key,
                "settings_id": known.settings_id,
                "model_family": known.settings.model_family,
                **{name: getattr(known.settings, name) for name in FIELD_NAMES},
            }
            for known in self.known.values()
        ]


def flat_canonical(record: dict) -> bytes:
    """`canonical_json` of a flat object with ASCII keys, at a tenth of its cost: there are thousands of settings.

    Among ASCII keys the order of RFC 8785 is that of code points. Raises ValueError for what it cannot write.
    """
    for key, value in record.items():
        if type(value) is int and abs(value) > MAX_EXACT_INTEGER:
            raise ValueError(f"{key}: integer {value} is not exact as an IEEE double")
        if not (value is None or type(value) in (str, int, bool)) or not key.isascii():
            raise ValueError(f"{key}: {type(value).__name__} has no place in settings")
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def stack_of(trial: dict) -> Stack:
    return Stack(trial["device"], trial["device_kind"], major_minor(trial["torch"]), major_minor(trial["transformers"]))


def slot_id(panel: bytes, known: Known, seed: int) -> str:
    """16 hex digits over the canonical JSON of panel, seed and settings. `panel` is its name as canonical JSON."""
    return sha256_hex(b'{"panel":%b,"seed":%d,"settings":%b}' % (panel, seed, known.identity))[:16]


def plan_digest(plan: dict, settings: list[Known], where: str) -> str:
    """SHA-256 of the canonical JSON of a plan without its digest. `settings` are those of its slots, in order, whose
    slot ids are known to be hex digits.

    The text is put together from parts that are canonical already: 'slots' is the last key, and a slot's keys ascend.
    """
    head = canonical_json({k: v for k, v in plan.items() if k not in ("slots", "digest")})
    parts = []
    for slot, known in zip(plan["slots"], settings, strict=True):
        if max(slot["seed"], slot["estimate_seconds"]) > MAX_EXACT_INTEGER:
            raise RecordError(where, found="an integer above 2^53", expected="numbers that canonical JSON can hold")
        numbers = (slot["estimate_seconds"], slot["seed"], known.canonical, slot["slot_id"].encode())
        parts.append(b'{"estimate_seconds":%d,"seed":%d,"settings":%b,"slot_id":"%b"}' % numbers)
    return sha256_hex(head[:-1] + b',"slots":[' + b",".join(parts) + b"]}")
