"""Which files go into an archive: run directories, merged by panel, and folders of other raw evidence.

A top folder of a run directory that has plan.json or ledger.jsonl is a panel and must have exactly the layout of
schema/records.py; anything else is other evidence and goes in under its path below the directory. Several directories
may hold parts of one panel. Two of them never may say different things about one attempt.
"""

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fitproof.errors import EvidenceError, UsageError
from fitproof.evidence.files import hash_stream, open_regular
from fitproof.evidence.names import MEMBERS, collision, folded, name_fault
from fitproof.evidence.reader import MAX_MEMBER_BYTES
from fitproof.schema.records import ATTEMPT_FILES, CHECKPOINTS, PREDICTIONS, WORKLOAD_FILE

PLAN, LEDGER = "plan.json", "ledger.jsonl"
PARTIAL = ".partial"
"""Suffix under which the runner writes a file before it renames it. A killed runner may leave one: it is no record."""
_PARTIAL_NAMES = {name + PARTIAL for name in (PLAN, PREDICTIONS, *ATTEMPT_FILES)}
_WORKLOAD = re.compile(WORKLOAD_FILE.format(r"[A-Za-z0-9.-]+"), re.ASCII)
_SLOT = re.compile(r"[0-9a-f]{16}", re.ASCII)
_ATTEMPT = re.compile(r"attempt-[1-9][0-9]{0,5}", re.ASCII)
_AT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Source:
    """One member to be: its digest and size as first read, and where the bytes are (a file, or text made here)."""

    name: str
    sha256: str
    size: int
    content: Path | bytes


@dataclass(frozen=True, slots=True)
class Inputs:
    """`sources` are sorted by the UTF-8 bytes of their names; `attempts` counts attempt folders."""

    sources: tuple[Source, ...]
    panels: tuple[str, ...]
    attempts: int
    notes: tuple[str, ...]


def attempt_folder(name: str) -> str | None:
    """`<panel>/<slot_id>/attempt-<n>` of a member that belongs to an attempt, or None for any other member."""
    parts = name.split("/")
    if len(parts) == 4 and _SLOT.fullmatch(parts[1]) and _ATTEMPT.fullmatch(parts[2]) and parts[3] in ATTEMPT_FILES:
        return name[: -len(parts[3]) - 1]
    return None


def tally(names: Iterable[str]) -> tuple[tuple[str, ...], int]:
    """(panels, attempt folders) among the member names of an archive."""
    panels, folders = set(), set()
    for name in names:
        if name.count("/") == 1 and name.endswith("/" + PLAN):
            panels.add(name[: -len(PLAN) - 1])
        elif (folder := attempt_folder(name)) is not None:
            folders.add(folder)
    return tuple(sorted(panels)), len(folders)


def collect(directories: Sequence[Path]) -> Inputs:
    """Read names and digests of all files below the directories and merge them. EvidenceError for what cannot go in."""
    merged: dict[str, Source] = {}
    ledgers: dict[str, list[Path]] = {}
    claims: dict[str, dict[str, str]] = {}  # attempt folder -> file name -> digest
    panels: set[str] = set()
    notes: list[str] = []
    for directory in directories:
        files = _files(directory)
        if (directory / CHECKPOINTS).is_dir():
            notes.append(f"{directory / CHECKPOINTS}: checkpoints are no evidence and were left out")
        for name in [n for n in files if n.rpartition("/")[2] in _PARTIAL_NAMES]:
            notes.append(f"{files.pop(name)}: a file that was never finished was left out")
        own_panels = _panels(files, directory)
        panels |= own_panels
        own_claims: dict[str, dict[str, str]] = {}
        for name, path in files.items():
            panel, _, rest = name.partition("/")
            if panel in own_panels and rest == LEDGER:
                ledgers.setdefault(name, []).append(path)
                continue
            source = _source(name, path)
            folder = attempt_folder(name)
            if folder is not None:
                own_claims.setdefault(folder, {})[name] = source.sha256
            elif panel in own_panels and rest not in (PLAN, PREDICTIONS) and not _WORKLOAD.fullmatch(rest):
                raise EvidenceError(
                    f"{path}",
                    found="a file that is no part of a panel",
                    expected=f"{PLAN}, {LEDGER}, {PREDICTIONS}, {WORKLOAD_FILE.format('<engine>')} or "
                    f"<slot_id>/attempt-<n>/ with {', '.join(ATTEMPT_FILES)}",
                    hint="move it out of the run directory",
                )
            elif name in merged and merged[name].sha256 != source.sha256:
                what = "two plans of one panel" if rest == PLAN else "two files of one name, not equal"
                raise EvidenceError(
                    f"{path}", found=what, expected=f"the bytes of {merged[name].content}", hint="pack them apart"
                )
            merged.setdefault(name, source)
        for folder, digests in own_claims.items():
            if claims.setdefault(folder, digests) != digests:
                raise EvidenceError(
                    f"{directory}/{folder}",
                    found="an attempt that another run directory holds with other bytes",
                    expected="each attempt of a slot once",
                    hint="find out which run was started without --done; only one of the two can be released",
                )
    for name, paths in ledgers.items():
        data = merge_ledgers(paths, notes)
        merged[name] = Source(name, hashlib.sha256(data).hexdigest(), len(data), data)
    if not merged:
        raise UsageError("nothing to pack", found="no files", expected="run directories with at least one file")
    if pair := collision(sorted(merged)):
        raise EvidenceError(f"{pair[0]} and {pair[1]}", found="names that some file systems take for one")
    sources = tuple(merged[name] for name in sorted(merged, key=str.encode))
    return Inputs(sources, tuple(sorted(panels)), len(claims), tuple(notes))


def _files(directory: Path) -> dict[str, Path]:
    """Name below the directory -> path of every file; only regular files and plain folders may be there."""
    if not directory.is_dir():
        raise UsageError(f"{directory}", found="no directory", expected="a run directory")
    files: dict[str, Path] = {}
    waiting = [(directory, "")]
    while waiting:
        folder, prefix = waiting.pop()
        for entry in sorted(os.scandir(folder), key=lambda e: e.name):
            name = prefix + entry.name
            if name == CHECKPOINTS and entry.is_dir(follow_symlinks=False):
                continue
            fault = name_fault(name) or ("is hidden" if entry.name.startswith(".") else None)
            if fault is None and folded(name) == folded(MEMBERS):
                fault = "belongs to the archive's own list"
            if fault:
                raise EvidenceError(
                    f"{folder}", found=f"{entry.name!r}, a name that {fault}", hint="move it out of the run directory"
                )
            if entry.is_dir(follow_symlinks=False):
                waiting.append((Path(entry.path), name + "/"))
            elif entry.is_file(follow_symlinks=False):
                files[name] = Path(entry.path)
            else:
                what = "a symbolic link" if entry.is_symlink() else "a device, pipe or socket"
                raise EvidenceError(entry.path, found=what, expected="a regular file", hint="move it out")
    return files


def _panels(files: dict[str, Path], directory: Path) -> set[str]:
    """Top folders that are panels, each with its plan and, once anything was tried, its ledger."""
    if PLAN in files or LEDGER in files:
        raise UsageError(
            f"{directory}",
            found=f"{PLAN} or {LEDGER} directly in it: this is one panel of a run directory",
            expected="the run directory",
            hint=f"fitproof pack {directory.parent} -o ARCHIVE",
        )
    tops = {name.partition("/")[0] for name in files if name.partition("/")[2] in (PLAN, LEDGER)}
    tried = {folder.partition("/")[0] for folder in map(attempt_folder, files) if folder is not None}
    for panel in sorted(tops | tried):
        needed = (PLAN, LEDGER) if panel in tried else (PLAN,)
        for name in needed:
            if f"{panel}/{name}" not in files:
                raise EvidenceError(f"{directory}/{panel}", found=f"no {name}", expected=f"{name} beside the slots")
    return tops


def _source(name: str, path: Path) -> Source:
    with open_regular(path, str(path), follow=False) as file:
        sha256, size = hash_stream(file)
    if size > MAX_MEMBER_BYTES:
        raise EvidenceError(str(path), found=f"{size} bytes", expected=f"at most {MAX_MEMBER_BYTES}, so it can be read")
    return Source(name, sha256, size, path)


def merge_ledgers(paths: Sequence[Path], notes: list[str]) -> bytes:
    """The union of ledgers of one panel by (slot, attempt): by time, then slot, attempt, start before end.

    Equal lines stand once. A last line without line feed (its writer died, and nothing relied on it) is left out and
    noted. Raises EvidenceError for lines that do not parse and for two unlike lines about one start or one end, and
    UsageError while a supervisor holds the ledger: what it measures now would be packed as interrupted.
    """
    lines: dict[tuple[str, int, str], tuple[str, bytes]] = {}  # (slot, attempt, event) -> (at, line)
    for path in paths:
        with open_regular(path, str(path), follow=False) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(
                    f"{path.parent}", found="a supervisor that is measuring into it", hint="wait for it to end"
                ) from None
            *whole, rest = file.read().split(b"\n")
        if rest:
            notes.append(f"{path}: a last line of {len(rest)} bytes without line feed was left out")
        for number, line in enumerate(whole, 1):
            key, at = _ledger_key(line, f"{path}:{number}")
            if lines.setdefault(key, (at, line)) != (at, line):
                raise EvidenceError(
                    f"{path}:{number}",
                    found=f"a second, different {key[2]} of slot {key[0]}, attempt {key[1]}",
                    expected="each start and each end of an attempt once",
                )
    order = sorted(lines.items(), key=lambda item: (item[1][0], item[0][0], item[0][1], item[0][2] != "start"))
    return b"".join(line + b"\n" for _, (_, line) in order)


def _ledger_key(line: bytes, where: str) -> tuple[tuple[str, int, str], str]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        record = None
    if isinstance(record, dict):
        event, slot, attempt, at = (record.get(k) for k in ("event", "slot_id", "attempt", "at"))
        is_start_or_end = event in ("start", "end") and isinstance(slot, str) and type(attempt) is int
        if is_start_or_end and isinstance(at, str) and _AT.fullmatch(at):
            return (slot, attempt, event), at
    raise EvidenceError(
        where,
        found=repr(line[:200].decode("utf-8", "replace")),
        expected="one JSON object with event (start or end), slot_id, attempt and at (UTC, microseconds)",
    )
