"""Run directories as the runner leaves them, small."""

import json
from pathlib import Path

SLOTS = ("0123456789abcdef", "fedcba9876543210", "00000000000000aa")


def ledger_line(event: str, slot: str, second: int, attempt: int = 1, **more: object) -> str:
    record = {"event": event, "slot_id": slot, "attempt": attempt, "at": f"2026-12-01T10:00:{second:02}.000000Z"}
    return json.dumps({**record, "allocation_id": "a", "campaign": "first", **more}) + "\n"


def write_plan(run: Path, panel: str = "grpo", reason: str = "test") -> None:
    (run / panel).mkdir(parents=True, exist_ok=True)
    (run / panel / "plan.json").write_text(json.dumps({"panel": panel, "reason": reason}))


def write_attempt(run: Path, slot: str, second: int, attempt: int = 1, panel: str = "grpo", salt: str = "") -> Path:
    """One finished attempt with its two ledger lines."""
    write_plan(run, panel)
    folder = run / panel / slot / f"attempt-{attempt}"
    folder.mkdir(parents=True)
    (folder / "trial.json").write_text(json.dumps({"device": "cpu", "slot_id": slot, "salt": salt}))
    (folder / "environment.json").write_text("{}")
    (folder / "events.jsonl").write_text('{"t_ns":1}\n' * 50)
    (folder / "memory.csv").write_text("t_ns,device_index,device_used_bytes,process_used_bytes\n" + "1,0,2,3\n" * 600)
    (folder / "stdout.log").write_bytes(b"")
    (folder / "stderr.log").write_bytes(b"\xff\x00 not text\n")
    (folder / "result.json").write_text('{"status":"completed"}')
    with open(run / panel / "ledger.jsonl", "a") as ledger:
        ledger.write(ledger_line("start", slot, second, attempt))
        ledger.write(ledger_line("end", slot, second + 1, attempt, status="completed", failure_class=None))
    return folder


def tree(folder: Path) -> dict[str, bytes]:
    """Relative POSIX path -> bytes of every file."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
