"""Parts of a trial that make the same events again and again: run a few times, then copied.

Micro-batches of one stage, prefills of further waves, captures of a later step. A part is copied only after two runs
of it in a row made the same events, up to the names of the keys, and only if it frees nothing that was there before.
Shapes decide the events and they stay, so it goes on like that; tests compare with runs that copy nothing.
"""

from collections.abc import Callable, Hashable

import torch

from .replay import Event
from .tape import Tape

Template = tuple[Event, ...]
"""Events of one pool and stream, whose keys count from 0 in the order of the allocations."""


class Repeats:
    """Keeps templates of one trial by name. `enabled=False` runs everything."""

    def __init__(self, tape: Tape, *, enabled: bool = True):
        self._tape, self._enabled = tape, enabled
        self._last: dict[Hashable, Template | None] = {}
        self._results: dict[Hashable, int | None] = {}
        self._ready: set[Hashable] = set()
        self.copied = 0

    def call(self, name: Hashable, function: Callable[[], torch.Tensor | None], *, trusted: bool = False):
        """function(), which returns one new tensor or None, or a copy of its events. `trusted`: one run is enough."""
        if name in self._ready:
            return self._copy_call(name)
        start = len(self._tape.events)
        result = function()
        key = None if result is None else self._tape.key_of(result)
        self.note(name, start, key, trusted=trusted)
        if name in self._ready and result is not None:
            self._results[name, "like"] = torch.empty_strided(result.shape, result.stride(), dtype=result.dtype,
                                                              device="cpu")  # fmt: skip
        return result

    def is_ready(self, name: Hashable) -> bool:
        return name in self._ready

    def note(self, name: Hashable, start: int, result_key: int | None = None, *, trusted: bool = False) -> None:
        """The events from `start` on are one run of `name`."""
        if not self._enabled:
            return
        template, local = _normalised(self._tape.events[start:])
        if template is not None and (trusted or self._last.get(name) == template):
            self._ready.add(name)
            self._results[name] = local.get(result_key)
        self._last[name] = template
        self._results[name, "labels"] = [self._tape.labels[key] for key in local]

    def copy(self, name: Hashable) -> list[int]:
        """Append the events of `name` once more, in the tape's present pool and stream; the new keys."""
        tape, keys = self._tape, []
        labels = iter(self._results[name, "labels"])
        for event in self._last[name]:
            if event[0] == "alloc":
                keys.append(tape.alloc(event[2], next(labels)))
            else:
                tape.free(keys[event[1]])
        self.copied += 1
        return keys

    def _copy_call(self, name: Hashable) -> torch.Tensor | None:
        keys, at = self.copy(name), self._results[name]
        if at is None:
            return None
        like = self._results[name, "like"]
        return self._tape.adopt(keys[at], tuple(like.shape), like.stride(), like.dtype)


def _normalised(events: list[Event]) -> tuple[Template | None, dict[int, int]]:
    """The template of events, None where they free something older or are more than allocations; and key -> index."""
    local: dict[int, int] = {}
    template = []
    for event in events:
        if event[0] == "alloc":
            local[event[1]] = len(local)
            template.append(("alloc", local[event[1]], event[2]))
        elif event[0] == "free" and event[1] in local:
            template.append(("free", local[event[1]]))
        else:
            return None, local
    return tuple(template), local
