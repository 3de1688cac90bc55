"""A rehearsed interruption: a trial that is asked to hold after a step, and is killed while it holds.

The request is a variable of the trial's own environment, so it is neither a setting nor part of any record. What the
trial did stands in its events: the fact `held_after_step`, then nothing. Imports no torch: both sides use it.
"""

import os
import signal
from pathlib import Path

_VARIABLE = "FITPROOF_HOLD_AFTER_STEP"
FACT = "held_after_step"


def hold_request(step: int | None) -> dict[str, str]:
    """The variables that ask a trial to hold after `step`, its checkpoint included; none for None."""
    return {} if step is None else {_VARIABLE: str(step)}


def requested_hold() -> int | None:
    """What the process that started this one asked for."""
    text = os.environ.get(_VARIABLE)
    return None if text is None else int(text)


def hold() -> None:
    """Wait for the kill. Never returns."""
    while True:
        signal.pause()


def is_held(attempt: Path) -> bool:
    """Whether the trial of this attempt's folder has said that it holds."""
    try:
        return f'"name":"{FACT}"'.encode() in (attempt / "events.jsonl").read_bytes()
    except FileNotFoundError:
        return False
