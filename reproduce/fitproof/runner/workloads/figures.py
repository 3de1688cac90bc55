"""What the events of an attempt say about speed: for the table of the verb. View opd_workloads has them from SQL.

Times are nanoseconds, sizes bytes. Cycle 1 pays for what is done once, so medians are over the later cycles. Positions
are response positions: those that the teacher scores for the loss and the student is updated on, as peers count them.
"""

import json
import statistics
from dataclasses import dataclass
from pathlib import Path

from ...schema.settings import Settings

_PHASES = {"rollout": "rollout", "teacher_scoring": "teacher", "actor_update": "update"}


@dataclass(frozen=True, slots=True)
class Trace:
    """The events of one attempt, in order."""

    events: tuple[dict, ...]

    def facts(self, name: str) -> list[object]:
        return [e["value"] for e in self.events if e["event"] == "fact" and e["name"] == name]

    def rollouts(self) -> dict[int, str]:
        """Step -> digest of what it rolled out."""
        found, step = {}, 0
        for e in self.events:
            if e["event"] == "stage_begin":
                step = e["step"]
            elif e["event"] == "fact" and e["name"] == "rollout_sha256":
                found[step] = e["value"]
        return found


def read_trace(attempt: Path) -> Trace:
    data = (attempt / "events.jsonl").read_bytes()
    return Trace(tuple(json.loads(line) for line in data[: data.rfind(b"\n") + 1].splitlines()))


def figures(trace: Trace, settings: Settings) -> dict[str, int | float]:
    """Of a completed uninterrupted attempt: seconds, rates and peaks under the names of view opd_workloads."""
    begin: dict[tuple[str, int], int] = {}
    ends: dict[tuple[str, int], dict] = {}
    for e in trace.events:
        if e["event"] == "stage_begin":
            begin[e["stage"], e["step"]] = e["t_ns"]
        elif e["event"] == "stage_end":
            ends[e["stage"], e["step"]] = e
    began = trace.facts("process_began_ns")[0]
    found: dict[str, int | float] = {
        "cold_start_seconds": (ends["initializing", 0]["t_ns"] - began) / 1e9,
        "first_rollout_seconds": (ends["rollout", 1]["t_ns"] - began) / 1e9,
        "first_update_seconds": (ends["actor_update", 1]["t_ns"] - began) / 1e9,
    }
    positions = settings.rollout_batch * settings.max_response_length
    for stage, name in _PHASES.items():
        later = [ends[stage, step]["t_ns"] - begin[stage, step] for step in range(2, settings.total_training_steps + 1)]
        seconds = statistics.median(later) / 1e9
        found[f"{name}_seconds"] = seconds
        found[f"{name}_{'tokens' if name == 'rollout' else 'positions'}_per_second"] = positions / seconds
    for name in ("peak_allocated_bytes", "peak_reserved_bytes"):
        found[name] = max(e[name] for e in ends.values())
    found["downshifts"] = sum(e["event"] == "downshift" for e in trace.events)
    for name in ("teacher_cache_bytes", "checkpoint_bytes"):
        found[name] = max(trace.facts(name))
    return found
