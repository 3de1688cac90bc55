"""What a slot still needs, from the ledger alone (DATA_CONTRACT 3).

Memory failures are results and never retried. A device fault, host memory, a time-out or a harness failure is replaced
at most once. An interruption never counts: the attempt had no chance to say anything.
"""

from collections import defaultdict
from dataclasses import dataclass

from ..schema.records import RETRIED_CLASSES

MOST_REPLACEMENTS = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class SlotState:
    """Where a slot stands. `status` is that of its last attempt that ended with a result, None before that."""

    is_done: bool
    next_attempt: int
    status: str | None
    was_interrupted: bool
    """The last attempt ended without a result."""


def slot_states(ledger: list[dict]) -> dict[str, SlotState]:
    """slot_id -> state, for every slot the ledger lines name; order of the lines does not matter."""
    ends: dict[str, dict[int, dict]] = defaultdict(dict)
    for record in ledger:
        attempts = ends[record["slot_id"]]
        if record["event"] == "end":
            attempts[record["attempt"]] = record
        else:
            attempts.setdefault(record["attempt"], {"status": "interrupted", "failure_class": None})
    return {slot: _state(attempts) for slot, attempts in ends.items()}


def _state(attempts: dict[int, dict]) -> SlotState:
    results = [end for _, end in sorted(attempts.items()) if end["status"] != "interrupted"]
    status = results[-1]["status"] if results else None
    # Completed and memory_failure have no class that is retried, so one question covers them too.
    is_final = any(end["failure_class"] not in RETRIED_CLASSES for end in results)
    is_done = is_final or len(results) > MOST_REPLACEMENTS
    return SlotState(is_done=is_done, next_attempt=max(attempts) + 1, status=status,
                     was_interrupted=attempts[max(attempts)]["status"] == "interrupted")  # fmt: skip


FRESH = SlotState(is_done=False, next_attempt=1, status=None, was_interrupted=False)
