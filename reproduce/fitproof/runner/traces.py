"""What a trial left behind, read back before it is judged: its events, its samples, its logs."""

import json
from dataclasses import dataclass
from pathlib import Path

from ..schema.records import MEMORY_CSV_HEADER, event_spec, problems

_LOG_BYTES = 400_000
"""Of each log's beginning and end: enough for any traceback, however chatty the trial was."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Events:
    """A summary of events.jsonl. `stage`: the stage that was open at the end, 'idle' between two, 'initializing'
    before the first. `problems`: what is wrong with the file itself."""

    failure: dict | None
    finished_steps: int | None
    completed_steps: int
    stage: str
    problems: tuple[str, ...]


def read_events(path: Path) -> Events:
    """Read events.jsonl; a last line without newline was torn by a kill and is dropped."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        data = b""
    failure, finished, step, stage, wrong, last_ns = None, None, 0, "initializing", [], 0
    for number, line in enumerate(data[: data.rfind(b"\n") + 1].splitlines(), start=1):
        where = f"events.jsonl line {number}"
        try:
            event = json.loads(line)
        except ValueError:
            wrong.append(f"{where}: no JSON")
            continue
        spec = event_spec(event.get("event")) if isinstance(event, dict) else None
        found = [f"{where}: unknown event"] if spec is None else problems(event, spec, where)
        if found:
            wrong += found
            continue
        if event["t_ns"] < last_ns:
            wrong.append(f"{where}: the clock goes backwards")
        last_ns = event["t_ns"]
        if event["event"] == "stage_begin":
            stage, step = event["stage"], event["step"]
        elif event["event"] == "stage_end":
            stage = "idle"
        elif event["event"] == "failure":
            failure = event
        elif event["event"] == "finished":
            finished = event["completed_steps"]
    completed = finished if finished is not None else max(0, step - 1)
    return Events(
        failure=failure, finished_steps=finished, completed_steps=completed, stage=stage, problems=tuple(wrong)
    )


def sample_problems(path: Path, samples: int) -> list[str]:
    """Why memory.csv is no valid measurement: not the rows that the sampler reported, a clock going backwards."""
    try:
        header, *rows = path.read_text(encoding="ascii").split("\n")
    except (OSError, ValueError) as error:
        return [f"memory.csv: {error}"]
    if header != MEMORY_CSV_HEADER or rows[-1:] != [""]:
        return ["memory.csv: no header, or a torn last line"]
    rows.pop()
    try:
        times = [int(row.split(",", 1)[0]) for row in rows]
    except ValueError as error:
        return [f"memory.csv: {error}"]
    wrong = []
    if len(rows) != samples or samples < 2:
        wrong.append(f"memory.csv: {len(rows)} rows, the sampler reported {samples}")
    if times != sorted(times):
        wrong.append("memory.csv: the clock goes backwards")
    return wrong


def log_text(attempt: Path) -> str:
    """What the trial printed, stdout before stderr, so that the last lines are the traceback's."""
    return "\n".join(_ends_of(attempt / name) for name in ("stdout.log", "stderr.log"))


def _ends_of(path: Path) -> str:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return ""
    if len(data) > 2 * _LOG_BYTES:
        data = data[:_LOG_BYTES] + b"\n[...]\n" + data[-_LOG_BYTES:]
    return data.decode("utf-8", errors="replace")
