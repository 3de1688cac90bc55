"""Archives into raw tables: streamed, checked record by record and against each other, loaded in bounded batches.

Nothing of an archive is written to disk. Samples are thinned while their batch is in memory; what stays are the raw
tables of schema/records.py without memory.csv, and the `core_` tables that the SQL of a batch makes. One batch is read
while the one before it is loaded: reading is Python's work, loading DuckDB's and Arrow's.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from ..errors import EvidenceError
from ..evidence.reader import read_members
from ..schema.records import ATTEMPT_FILES
from .attempts import Batch, Folder
from .database import Database
from .events import parse_events
from .identities import SettingsBook
from .panels import Panel, panel_rows
from .samples import parse_samples
from .tables import to_arrow
from .workloads import MEMBER as WORKLOAD
from .workloads import check_attempts, workload_row

BATCH_BYTES = 16 << 20  # of memory.csv and events.jsonl: some 300,000 samples
BATCH_ATTEMPTS = 1000
DOCUMENTS = 1000  # attempts whose documents are loaded at a time: every load of a table has a price of its own
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

    def __init__(self, db: Database, parser: ThreadPoolExecutor, loader: ThreadPoolExecutor):
        self.db = db
        self.book = SettingsBook()
        self._batch = Batch()
        self._parser = parser
        # One thread, so that batches stay in order: the only one that uses the database until `finish`.
        self._loader = loader
        self._loading: deque[Future] = deque()
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
                raise EvidenceError(
                    f"{name}: {member.name}", found="a member that is no part of a run directory",
                    expected="<panel>/plan.json, <panel>/ledger.jsonl, <panel>/<slot_id>/attempt-<n>/<file> or "
                    "<folder>/workload-<engine>.json",
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
        self._flush(documents=True)
        self._wait(0)
        self.db.insert("raw_settings", to_arrow("raw_settings", self.book.rows()))

    def _close(self, folder: Folder | None, panels: dict[str, Panel]) -> None:
        if folder is None:
            return
        panels[folder.panel].attempts[folder.slot_id, folder.attempt] = self._batch.add(
            folder, self._next_key, self.book
        )
        self._next_key += 1
        if self._batch.bytes > BATCH_BYTES or len(self._batch.traced) >= BATCH_ATTEMPTS:
            self._flush(documents=len(self._batch.tables["raw_trials"]) >= DOCUMENTS)

    def _claim(self, row: dict, name: str) -> None:
        """A slot attempt belongs to one archive. The same slot on another device or in another campaign is another."""
        claim = tuple(row[k] for k in ("panel", "campaign", "slot_id", "configuration_id", "attempt_number"))
        other = self._claims.setdefault(claim, name)
        if other != name:
            raise EvidenceError(
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
            raise EvidenceError(
                where, found=f"run {row['run']!r} of {row['engine']}, which {other} holds already",
                expected="each run once", hint="a repetition needs a campaign name of its own",
            )  # fmt: skip

    def _flush(self, *, documents: bool) -> None:
        """Hand the batch over; its documents may wait for the next."""
        batch, self._batch = self._batch, Batch()
        if not documents:
            batch.tables, self._batch.tables = {}, batch.tables
        self._wait(1)  # so that three batches at most are in memory: being read, parsed and loaded
        events = self._parser.submit(parse_events, batch.events)
        samples = self._parser.submit(parse_samples, batch.memory)
        self._loading.append(self._loader.submit(_load, self.db, batch, events, samples))

    def _wait(self, left: int) -> None:
        """Until at most `left` batches are under way."""
        while len(self._loading) > left:
            self._loading.popleft().result()


def _is_place(slot: str, attempt: str) -> bool:
    return _SLOT.fullmatch(slot) is not None and _ATTEMPT.fullmatch(attempt) is not None


def _load(db: Database, batch: Batch, events: "Future[pa.Table]", samples: "Future[pa.Table]") -> None:
    """Load a batch and check its events across lines. Raises EvidenceError, that of the parsers too."""
    for table, rows in batch.tables.items():
        db.insert(table, to_arrow(table, rows))
    db.replace("batch_attempts", to_arrow("batch_attempts", batch.traced))
    db.replace("batch_events", events.result())
    db.replace("batch_memory", samples.result())
    for key, line, found, expected in db.rows("_check_events"):
        raise EvidenceError(f"{batch.where[key]}/events.jsonl line {line}", found=found, expected=expected)
    db.run_batch()


def ingest(db: Database, archives: Iterable[ArchiveFile], progress: Callable[[int, int], None] | None = None) -> None:
    """Load archives in the order of their names, whatever the order given. `progress(done, total)` counts them."""
    ordered = sorted(archives, key=lambda a: a.path.name)
    with (
        ThreadPoolExecutor(max_workers=2, thread_name_prefix="parse") as parser,
        ThreadPoolExecutor(max_workers=1, thread_name_prefix="load") as loader,
    ):
        work = Ingest(db, parser, loader)
        for done, archive in enumerate(ordered, start=1):
            work.archive(archive)
            if progress is not None:
                progress(done, len(ordered))
        work.finish()
