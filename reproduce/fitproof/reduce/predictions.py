"""Files of frozen predictions: parsed, checked line by line and against each other, made into rows."""

from dataclasses import dataclass, field

from ..schema import records
from ..schema.canonical import sha256_hex
from .documents import RecordError, checked, one_of, strict_json, utc_text, whole_lines
from .identities import SettingsBook, Stack

Key = tuple[str, str, str]
"""configuration_id, method, method_version"""
_OUTPUTS = ("capacity_bytes", "completes", "label", "failure_stage", "failure", "peak_allocated_bytes",
            "peak_reserved_bytes", "peak_device_used_bytes", "peak_stage", "smallest_capacity_bytes",
            "smallest_without_retries_bytes", "alloc_retries", "stages", "interval")  # fmt: skip
_WHAT_ANSWERED = ("own_torch", "own_transformers", "own_peft", "code_digest", "gpu_profile", "gpu_profile_digest",
                  "fitted_families", "refusal")  # fmt: skip
_EMPTY: dict[str, object] = {**dict.fromkeys(_OUTPUTS), "stages": [], "interval": {}}


@dataclass(slots=True)
class Predictions:
    """All predictions of one reduction. The same file in two archives counts once, in the one that comes first."""

    book: SettingsBook
    rows: list[dict] = field(default_factory=list)
    """Of raw_predictions."""
    stages: list[dict] = field(default_factory=list)
    """Of raw_predicted_stages."""
    _digests: set[str] = field(default_factory=set)
    _answers: dict[Key, tuple[list, str]] = field(default_factory=dict)

    def add(self, data: bytes, archive: str, where: str) -> None:
        """Check one file and keep its rows. Raises EvidenceError: archive, member, line, what is wrong."""
        digest = sha256_hex(data)
        if digest in self._digests:
            return
        self._digests.add(digest)
        frozen_at, seen = None, set()
        for number, line in enumerate(whole_lines(data, where, may_be_torn=False).split(b"\n")[:-1], start=1):
            place = f"{where} line {number}"
            record = strict_json(line, place)
            if isinstance(record, dict) and record.get("schema_version") != records.SCHEMA_VERSION:
                found = f"schema_version {record.get('schema_version')!r}"
                raise RecordError(place, found=found, expected=f"schema_version {records.SCHEMA_VERSION}")
            checked(record, records.PREDICTION, place)
            self._check(record, place)
            frozen_at = frozen_at or record["frozen_at"]
            if record["frozen_at"] != frozen_at:
                raise RecordError(place, found=f"frozen_at {record['frozen_at']!r}", expected=f"{frozen_at!r}, as in "
                                    "the first line: a file is frozen at once")  # fmt: skip
            key = tuple(record[name] for name in ("configuration_id", "method", "method_version"))
            if key in seen:
                raise RecordError(place, found=f"a second answer of {key[1]} {key[2]} for {key[0]}", expected="one")
            seen.add(key)
            self._agree(key, record, place)
            self._keep(record, archive, digest)
        if not seen:
            raise RecordError(where, found="no line", expected="at least one prediction")

    def _check(self, record: dict, where: str) -> None:
        utc_text(record, "frozen_at", where)
        known = self.book.look_up(record["settings"], where)
        stack = Stack(record["device"], "", record["torch"], record["transformers"])
        for name, own in (
            ("settings_id", known.settings_id),
            ("configuration_id", self.book.configuration_id(known, stack)),
        ):
            if record[name] != own:
                raise RecordError(where, found=f"{name} {record[name]!r}", expected=f"{own!r}, recomputed")
        for name in ("method", "method_version"):
            if not record[name].strip():
                raise RecordError(where, found=f"{name} {record[name]!r}", expected="a name")
        one_of(record, "label", (None, *records.LABELS), where)
        for name in ("failure_stage", "peak_stage"):
            one_of(record, name, (None, *records.STAGES), where)
        if not all(isinstance(family, str) for family in record["fitted_families"]):
            raise RecordError(where, found=f"fitted_families {record['fitted_families']!r}", expected="names")
        answered = [name for name in _OUTPUTS if record[name] != _EMPTY[name]]
        if (record["refusal"] is None) != bool(answered):
            found = f"a refusal and {answered[0]}" if answered else "neither an answer nor a refusal"
            raise RecordError(where, found=found, expected="one of the two")
        stages = [stage.get("stage") for stage in record["stages"] if isinstance(stage, dict)]
        for number, stage in enumerate(record["stages"], start=1):
            place = f"{where} stage {number}"
            checked(stage, records.PREDICTED_STAGE, place)
            one_of(stage, "stage", records.STAGES, place)
            if stages.count(stage["stage"]) > 1:
                raise RecordError(place, found=f"stage {stage['stage']} twice", expected="each stage once")
        for name, ends in record["interval"].items():
            is_pair = isinstance(ends, list) and len(ends) == 2 and all(type(end) is int for end in ends)
            if name not in records.INTERVALS or not is_pair or not 0 <= ends[0] <= ends[1] < 2**63:
                expected = f"[lowest, highest] bytes of one of: {', '.join(records.INTERVALS)}"
                raise RecordError(where, found=f"interval {name} {ends!r}", expected=expected)

    def _agree(self, key: Key, record: dict, where: str) -> None:
        """One version of a method has one answer. Files frozen at other times may repeat it."""
        answer = [record[name] for name in (*_OUTPUTS, *_WHAT_ANSWERED)]
        before, there = self._answers.setdefault(key, (answer, where))
        if before != answer:
            raise RecordError(where, found=f"another answer of {key[1]} {key[2]} for configuration {key[0]}",
                                expected=f"that of {there}, or another method_version")  # fmt: skip

    def _keep(self, record: dict, archive: str, digest: str) -> None:
        ends = {f"{end}_{name}": pair[at] for name, pair in record["interval"].items()
                for at, end in enumerate(("lowest", "highest"))}  # fmt: skip
        self.rows.append({**record, **ends, "archive": archive, "predictions_digest": digest,
                          "settings_key": self.book.look_up(record["settings"], archive).key,
                          "fitted_families": ", ".join(record["fitted_families"])})  # fmt: skip
        key = {name: record[name] for name in ("configuration_id", "method", "method_version")}
        self.stages += [{**key, "predictions_digest": digest, **stage} for stage in record["stages"]]
