"""Archives into raw tables: streamed, checked record by record and against each other, loaded in bounded batches.

Nothing of an archive is written to disk. Samples are thinned in Arrow while their batch is in memory (thinning.py);
what stays are the raw tables of schema/records.py without memory.csv, the thinned samples and the peaks of their
intervals, all in DuckDB, which puts what exceeds its limit into a scratch folder. One batch is read while the one
before it is parsed and loaded: two threads that need the interpreter about half of their time.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ..evidence.reader import read_members
from ..schema.records import ATTEMPT_FILES, PREDICTIONS
from .attempts import Batch, Folder
from .database import Database
from .documents import RecordError
from .events import parse_events
from .identities import SettingsBook
from .panels import Panel, panel_rows
from .predictions import Predictions
from .samples import parse_samples
from .tables import to_arrow
from .thinning import thin
from .workloads import MEMBER as WORKLOAD
from .workloads import check_attempts, workload_row

BATCH_BYTES = 8 << 20  # of memory.csv and events.jsonl: some 160,000 samples; less costs statements, more costs caches
BATCH_ATTEMPTS = 1000
ARCHIVE_SUFFIX = ".tar.zst"
_SLOT = re.compile(r"[0-9a-f]{16}", re.ASCII)
_ATTEMPT = re.compile(r"attempt-([1-9][0-9]{0,5})", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchiveFile:
    """One archive and the digest it must have."""

    path: Path
    sha256: str

    @property
    def name(self) -> str:
        return self.path.name.removesuffix(ARCHIVE_SUFFIX)


class Ingest:
    """Loads archives one after the other. Call `archive` for each, then `finish`."""

    def __init__(self, db: Database, loader: ThreadPoolExecutor):
        self._db = db
        self.book = SettingsBook()
        self.predictions = Predictions(self.book)
        self._batch = Batch()
        # One thread, so that batches stay in order: the only one that uses the database until `finish`.
        self._loader = loader
        self._loading: deque[Future] = deque([loader.submit(db.open)])
        self._next_key = 0
        self._claims: dict[tuple, str] = {}

    def archive(self, archive: ArchiveFile) -> None:
        """Read one archive. Raises EvidenceError: archive, member, line, what is wrong."""
        name = archive.path.name
        panels: dict[str, Panel] = {}
        workloads: dict[str, dict] = {}
        folder: Folder | None = None
        prefix = "/"  # path of the open folder; no member begins with a slash
        for member in read_members(archive.path, expected_sha256=archive.sha256, hash_tar=False):
            if member.name.startswith(prefix) and member.name[len(prefix) :] in ATTEMPT_FILES:
                folder.files[member.name[len(prefix) :]] = member.data
                continue
            if member.name == PREDICTIONS or member.name.partition("/")[2] == PREDICTIONS:
                self.predictions.add(member.data, archive.name, f"{name}: {member.name}")
                continue
            if WORKLOAD.fullmatch(member.name):
                where = f"{name}: {member.name}"
                workloads[where] = workload_row(member.data, where, archive.name)
                continue
            panel_name, *rest = member.name.split("/")
            panel = panels.setdefault(panel_name, Panel(panel_name))
            if rest == ["plan.json"]:
                panel.plan = member.data
            elif rest == ["ledger.jsonl"]:
                panel.ledger = member.data
            elif len(rest) == 3 and _is_place(rest[0], rest[1]) and rest[2] in ATTEMPT_FILES:
                place = (panel_name, rest[0], int(rest[1][len("attempt-") :]))
                self._close(folder, panels)
                prefix = f"{panel_name}/{rest[0]}/{rest[1]}/"
                folder = Folder(f"{name}: {prefix[:-1]}", *place)
                folder.files[rest[2]] = member.data
            else:
                raise RecordError(
                    f"{name}: {member.name}", found="a member that is no part of a run directory",
                    expected="<panel>/plan.json, <panel>/ledger.jsonl, <panel>/predictions.jsonl, "
                    "<panel>/<slot_id>/attempt-<n>/<file> or <folder>/workload-<engine>.json",
                )  # fmt: skip
        self._close(folder, panels)
        for panel in panels.values():
            rows = panel_rows(panel, archive.name, name, self.book)
            for row in rows.attempts:
                self._claim(row, name)
            self._batch.tables["raw_slots"] += rows.slots
            self._batch.tables["raw_attempts"] += rows.attempts
        for where, row in workloads.items():
            check_attempts(row, panels, where)
            self._claim_workload(row, where)
            self._batch.tables["raw_workloads"].append(row)

    def finish(self) -> None:
        """Load what still waits."""
        self._flush()
        self._wait(0)
        self._db.insert("raw_predictions", to_arrow("raw_predictions", self.predictions.rows))
        self._db.insert("raw_predicted_stages", to_arrow("raw_predicted_stages", self.predictions.stages))
        self._db.insert("raw_settings", to_arrow("raw_settings", self.book.rows()))
        self._db.commit()

    def _close(self, folder: Folder | None, panels: dict[str, Panel]) -> None:
        if folder is None:
            return
        panels[folder.panel].attempts[folder.slot_id, folder.attempt] = self._batch.add(
            folder, self._next_key, self.book
        )
        self._next_key += 1
        if self._batch.bytes > BATCH_BYTES or len(self._batch.traces) >= BATCH_ATTEMPTS:
            self._flush()

    def _claim(self, row: dict, name: str) -> None:
        """A slot attempt belongs to one archive. The same slot on another device or in another campaign is another."""
        claim = tuple(row[k] for k in ("panel", "campaign", "slot_id", "configuration_id", "attempt_number"))
        other = self._claims.setdefault(claim, name)
        if other != name:
            raise RecordError(
                f"{name}: {row['panel']}/{row['slot_id']}/attempt-{row['attempt_number']}",
                found=f"the attempt that {other} holds already",
                expected="each attempt of a slot in one archive",
                hint="keep one of the two archives; a repetition needs a campaign name of its own",
            )

    def _claim_workload(self, row: dict, where: str) -> None:
        """A run of a workload stands once: by these names the view tells its rows apart."""
        claim = tuple(row[name] for name in ("workload", "pair", "engine", "device", "run"))
        other = self._claims.setdefault(claim, where)
        if other != where:
            raise RecordError(
                where, found=f"run {row['run']!r} of {row['engine']}, which {other} holds already",
                expected="each run once", hint="a repetition needs a campaign name of its own",
            )  # fmt: skip

    def _flush(self) -> None:
        batch, self._batch = self._batch, Batch()
        self._wait(1)  # so that three batches at most are in memory: being read, waiting and being loaded
        self._loading.append(self._loader.submit(_load, self._db, batch))

    def _wait(self, left: int) -> None:
        """Until at most `left` batches are under way."""
        while len(self._loading) > left:
            self._loading.popleft().result()


def _is_place(slot: str, attempt: str) -> bool:
    return _SLOT.fullmatch(slot) is not None and _ATTEMPT.fullmatch(attempt) is not None


def _load(db: Database, batch: Batch) -> None:
    """Parse and load a batch. Raises EvidenceError for malformed traces."""
    for table, rows in batch.tables.items():
        db.insert(table, to_arrow(table, rows))
    events = parse_events(batch.events)
    db.insert("raw_events", events)
    peaks, thinned = thin(parse_samples(batch.memory), events, batch.traces)
    db.insert("core_interval_peaks", peaks)
    db.insert("core_thinned", thinned)


def check_events(db: Database) -> None:
    """Events across lines: the clock, and stages one after the other. Raises EvidenceError for the first bad line."""
    for archive, panel, slot_id, number, line, found, expected in db.rows("_check_events"):
        member = f"{panel}/{slot_id}/attempt-{number}/events.jsonl"
        raise RecordError(f"{archive}{ARCHIVE_SUFFIX}: {member} line {line}", found=found, expected=expected)


def ingest(db: Database, archives: Iterable[ArchiveFile], progress: Callable[[int, int], None] | None = None) -> None:
    """Open `db` and load archives in the order of their names, whatever the order given.

    What only several lines of a trace show is checked by `check_events`, once all is loaded. `progress(done, total)`
    counts archives.
    """
    ordered = sorted(archives, key=lambda a: a.path.name)
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="load") as loader:
        work = Ingest(db, loader)
        for done, archive in enumerate(ordered, start=1):
            work.archive(archive)
            if progress is not None:
                progress(done, len(ordered))
        work.finish()
