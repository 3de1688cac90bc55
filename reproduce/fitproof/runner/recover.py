"""Setting a run directory straight after its last supervisor died: at most one attempt can be half recorded."""

import json
import re
from pathlib import Path

from ..errors import EvidenceError, UsageError
from ..schema.canonical import sha256_hex
from ..schema.records import PREDICTIONS
from .attempt import Bench, end_line
from .files import PARTIAL_SUFFIX, write_bytes, write_json
from .plan import Plan, load_plan

_BEFORE_START = ("trial.json", "trial.json" + PARTIAL_SUFFIX)
"""What an attempt's folder holds before its start stands in the ledger, empty logs apart."""
_FOLDER = re.compile(r"attempt-([1-9]\d*)")


def keep_plan(plan: Plan, folder: Path) -> None:
    """Write plan.json beside the slots, or check that it is the one that is there. Raises UsageError."""
    path = folder / "plan.json"
    path.with_name(path.name + PARTIAL_SUFFIX).unlink(missing_ok=True)
    if not path.exists():
        write_json(path, plan.record())
        return
    there = load_plan(path, check_code=False)
    if there.digest != plan.digest:
        raise UsageError(
            f"run directory {folder}",
            found=f"it holds plan {there.digest[:16]}",
            expected=f"plan {plan.digest[:16]}",
            hint="choose another --out, and name archives of earlier parts with --done",
        )


def keep_predictions(plan: Plan, source: Path | None, folder: Path) -> None:
    """Copy the frozen predictions that the plan names beside it. Raises EvidenceError for another file."""
    if plan.predictions_digest is None or source is None or not source.is_file():
        return
    data = source.read_bytes()
    if sha256_hex(data) != plan.predictions_digest:
        raise EvidenceError(str(source), found=f"SHA-256 {sha256_hex(data)}", expected=f"{plan.predictions_digest}, "
                            "which the plan names", hint="keep a plan and its predictions together")  # fmt: skip
    write_bytes(folder / PREDICTIONS, data)


def recover(bench: Bench) -> None:
    """Make folders and ledger agree again.

    A folder without a start in the ledger was never started: it goes. A result without an end in the ledger gets its
    end. A start without a result stays as it is: interrupted. Half-written files of an atomic rename go.
    """
    started = {(r["slot_id"], r["attempt"]) for r in bench.ledger.records if r["event"] == "start"}
    ended = {(r["slot_id"], r["attempt"]) for r in bench.ledger.records if r["event"] == "end"}
    for slot_id in bench.plan.slots:
        for folder in sorted((bench.folder / slot_id).glob("attempt-*")):
            number = _FOLDER.fullmatch(folder.name)
            if number is None or not folder.is_dir():
                raise EvidenceError(
                    str(folder), found="no attempt", expected="attempt-1, attempt-2, ...", hint=f"mv {folder} elsewhere"
                )
            key = (slot_id, int(number[1]))
            if key not in started:
                _discard(folder)
                continue
            for partial in folder.glob(f"*{PARTIAL_SUFFIX}"):
                partial.unlink()
            if key not in ended and (folder / "result.json").exists():
                bench.ledger.append(end_line(bench, *key, _result(folder / "result.json")))


def _result(path: Path) -> dict:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise EvidenceError(str(path), found=str(error), expected="one JSON document") from None


def _is_empty_file(path: Path) -> bool:
    return path.is_file() and path.stat().st_size == 0


def _discard(folder: Path) -> None:
    """Remove the folder of an attempt that was never started: its empty logs and perhaps trial.json.

    Raises EvidenceError for anything more in it: then something ran, and it is the ledger that has lost its line.
    """
    more = [path.name for path in folder.iterdir() if path.name not in _BEFORE_START and not _is_empty_file(path)]
    if more:
        raise EvidenceError(
            str(folder),
            found=f"{', '.join(sorted(more))} of an attempt whose start the ledger does not hold",
            expected="every started attempt in ledger.jsonl; nothing was removed",
            hint="restore ledger.jsonl, or measure into another --out",
        )
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    if not any(folder.parent.iterdir()):
        folder.parent.rmdir()
