"""The retry policy of DATA_CONTRACT 3, as a table: what the ledger says -> (done, next attempt)."""

import itertools

import pytest
from fitproof.runner.retries import slot_states
from fitproof.schema.records import FAILURE_CLASSES, RETRIED_CLASSES

SLOT = "0" * 16


def ledger(*ends: str | None) -> list[dict]:
    """One attempt per entry: a status, a failure class of an ineligible one, or None where no end was written."""
    records = []
    for attempt, end in enumerate(ends, start=1):
        records.append({"event": "start", "slot_id": SLOT, "attempt": attempt, "status": None, "failure_class": None})
        if end is not None:
            ineligible = end in FAILURE_CLASSES
            failure_class = end if ineligible else "device_memory" if end == "memory_failure" else None
            status = "ineligible" if ineligible else end
            records.append({"event": "end", "slot_id": SLOT, "attempt": attempt, "status": status,
                            "failure_class": failure_class})  # fmt: skip
    return records


@pytest.mark.parametrize(
    ("ends", "is_done", "status"),
    [
        (["completed"], True, "completed"),
        (["memory_failure"], True, "memory_failure"),
        (["dependency"], True, "ineligible"),
        (["data"], True, "ineligible"),
        (["unknown"], True, "ineligible"),
        *[([name], False, "ineligible") for name in RETRIED_CLASSES],
        *[([first, second], True, "ineligible") for first, second in itertools.product(RETRIED_CLASSES, repeat=2)],
        (["timeout", "completed"], True, "completed"),
        (["device_fault", "memory_failure"], True, "memory_failure"),
        ([None], False, None),
        (["interrupted"], False, None),
        ([None, "interrupted", None, "interrupted"], False, None),
        ([None, "harness"], False, "ineligible"),
        (["harness", None], False, "ineligible"),
        (["harness", None, "harness"], True, "ineligible"),
        ([None, "completed"], True, "completed"),
    ],
)
def test_policy(ends, is_done, status):
    records = ledger(*ends)
    for order in (records, records[::-1]):  # parts of a ledger come in any order
        state = slot_states(order)[SLOT]
        assert (state.is_done, state.status, state.next_attempt) == (is_done, status, len(ends) + 1)
        assert state.was_interrupted == (ends[-1] in (None, "interrupted"))


def test_nothing_tried_is_no_state():
    assert slot_states([]) == {}
