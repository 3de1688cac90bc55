"""Read an archive as a stream: tar inside Zstandard, one attempt at a time. Nothing is written to disk.

This is a second reader, on purpose: the standard library's tarfile over zstandard, plain json, nothing shared with the
pipeline's. It checks what it needs to trust its own numbers (the archive's digest, every member's digest).
"""

import hashlib
import json
import re
import tarfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import zstandard

from .predictions import parse_file

ATTEMPT_FILE = re.compile(
    r"(?P<panel>[^/]+)/(?P<slot>[0-9a-f]{16})/attempt-(?P<number>[1-9][0-9]*)/(?P<file>[a-z]+\.[a-z]+)"
)
PANEL_FILE = re.compile(r"(?P<panel>[^/]+)/(?P<file>plan\.json|ledger\.jsonl)")

PREDICTIONS_FILE = re.compile(r"([^/]+/)?predictions\.jsonl")


class ArchiveError(Exception):
    """An archive whose bytes are not what the release says, or whose layout this house does not know."""


@dataclass(kw_only=True, slots=True)
class RawAttempt:
    """What one attempt left behind. `trial` and `result` are None where the file is missing."""

    archive: str
    panel: str
    slot_id: str
    number: int
    trial: dict | None = None
    result: dict | None = None
    environment: dict | None = None
    events: list[dict] = field(default_factory=list)
    memory_csv: bytes | None = None


@dataclass(kw_only=True, slots=True)
class Panel:
    """A panel as one archive has it: the frozen plan and the ledger lines."""

    plan: dict
    ledger: list[dict] = field(default_factory=list)


def sha256_file(path: Path) -> str:
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def members(path: Path, *, sha256: str) -> Iterator[tuple[str, bytes]]:
    """(name, bytes) of every regular member, in order. Raises ArchiveError for a file or member of another digest."""
    found = sha256_file(path)
    if found != sha256:
        raise ArchiveError(f"{path.name}: SHA-256 is {found}, the release says {sha256}")
    listed: dict[str, str] = {}
    seen: set[str] = set()
    with (
        path.open("rb") as raw,
        zstandard.ZstdDecompressor().stream_reader(raw) as plain,
        tarfile.open(fileobj=plain, mode="r|") as tar,
    ):
        for info in tar:
            if info.isdir():
                continue
            if not info.isreg() or info.name in seen:
                raise ArchiveError(f"{path.name}: {info.name} is no regular file, or stands there twice")
            data = tar.extractfile(info).read()
            if not seen:
                if info.name != "MEMBERS.sha256":
                    raise ArchiveError(f"{path.name}: the first member is {info.name}, not MEMBERS.sha256")
                listed = dict(reversed(line.split("  ", 1)) for line in data.decode().splitlines())
            elif listed.get(info.name) != hashlib.sha256(data).hexdigest():
                raise ArchiveError(f"{path.name}: {info.name} is not listed in MEMBERS.sha256 with this digest")
            seen.add(info.name)
            yield info.name, data
    missing = sorted(set(listed) - seen)
    if missing:
        raise ArchiveError(f"{path.name}: MEMBERS.sha256 lists {missing[0]}, which is not there")


def attempts(
    path: Path, *, sha256: str, panels: dict[str, Panel], predictions: list[dict] | None = None
) -> Iterator[RawAttempt]:
    """Every attempt of one archive; plans and ledgers go into `panels` by name, lines of predictions.jsonl into
    `predictions`. Other members are passed over.
    """
    name = path.name
    current: RawAttempt | None = None
    plans: dict[str, dict] = {}
    ledgers: dict[str, list[dict]] = defaultdict(list)
    for member, data in members(path, sha256=sha256):
        if match := PANEL_FILE.fullmatch(member):
            if match["file"] == "plan.json":
                plans[match["panel"]] = json.loads(data)
            else:
                ledgers[match["panel"]] = _json_lines(data)
            continue
        if predictions is not None and PREDICTIONS_FILE.fullmatch(member):
            predictions += parse_file(data)
            continue
        match = ATTEMPT_FILE.fullmatch(member)
        if not match:
            continue
        identity = (match["panel"], match["slot"], int(match["number"]))
        if current is None or (current.panel, current.slot_id, current.number) != identity:
            if current is not None:
                yield current
            current = RawAttempt(archive=name, panel=identity[0], slot_id=identity[1], number=identity[2])
        _put(current, match["file"], data)
    if current is not None:
        yield current
    for panel, plan in plans.items():
        panels[panel] = Panel(plan=plan, ledger=ledgers.get(panel, []))


def _put(attempt: RawAttempt, file: str, data: bytes) -> None:
    if file == "memory.csv":
        attempt.memory_csv = data
    elif file == "events.jsonl":
        attempt.events = _json_lines(data)
    elif file in ("trial.json", "result.json", "environment.json"):
        setattr(attempt, file.removesuffix(".json"), json.loads(data))


def _json_lines(data: bytes) -> list[dict]:
    """One object a line. A last line without its newline was cut by a kill and says nothing."""
    whole = data[: data.rfind(b"\n") + 1]
    return [json.loads(line) for line in whole.splitlines()]
