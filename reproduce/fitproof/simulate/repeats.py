"""Parts of a trial that make the same events again and again: run a few times, then copied.

Micro-batches of one stage, prefills of further waves, captures of a later step. A part is copied only after two runs
of it in a row made the same events, up to the names of the keys, and only if it frees nothing that was there before.
Shapes decide the events and they stay, so it goes on like that; tests compare with runs that copy nothing.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass

import torch

from .replay import Event
from .tape import Tape

Result = torch.Tensor | tuple[torch.Tensor, ...] | None


@dataclass(frozen=True, slots=True)
class _Part:
    """Events of one pool and stream, whose keys count from 0 in the order of the allocations; and what comes out."""

    events: tuple[Event, ...]
    labels: tuple[str, ...]
    results: tuple[int, ...]
    likes: tuple[torch.Tensor, ...]
    is_tuple: bool
    operations: int


class Repeats:
    """Keeps the parts of one trial by name. `enabled=False` runs everything."""

    def __init__(self, tape: Tape, *, enabled: bool = True):
        self._tape, self._enabled = tape, enabled
        self._last: dict[Hashable, _Part | None] = {}
        self._ready: set[Hashable] = set()
        self.operations = 0  # of the parts that were copied instead of run

    def call(self, name: Hashable, function: Callable[[], Result], *, trusted: bool = False) -> Result:
        """function(), which returns new tensors or None, or a copy of its events. `trusted`: one run is enough."""
        if name in self._ready:
            return self._copy(self._last[name])
        start, operations, before = len(self._tape.events), self._tape.operations, self._last.get(name)
        result = function()
        part = self._part(start, operations, result)
        self._last[name] = part
        if self._enabled and part is not None and (trusted or (before is not None and before.events == part.events)):
            self._ready.add(name)
        return result

    def _part(self, start: int, operations: int, result: Result) -> _Part | None:
        """What happened from `start` on; None where older things were freed or it was more than allocations."""
        local: dict[int, int] = {}
        events: list[Event] = []
        for event in self._tape.events[start:]:
            if event[0] == "alloc":
                local[event[1]] = len(local)
                events.append(("alloc", local[event[1]], event[2]))
            elif event[0] == "free" and event[1] in local:
                events.append(("free", local[event[1]]))
            else:
                return None
        tensors = result if isinstance(result, tuple) else () if result is None else (result,)
        keys = [self._tape.key_of(t) for t in tensors]
        if any(key not in local for key in keys):
            return None
        likes = tuple(torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="cpu") for t in tensors)
        labels = tuple(self._tape.labels[key] for key in local)
        return _Part(tuple(events), labels, tuple(local[key] for key in keys), likes, isinstance(result, tuple),
                     self._tape.operations - operations)  # fmt: skip

    def _copy(self, part: _Part) -> Result:
        """The events once more, in the tape's present pool and stream."""
        keys: list[int] = []
        labels = iter(part.labels)
        for event in part.events:
            if event[0] == "alloc":
                keys.append(self._tape.alloc(event[2], next(labels)))
            else:
                self._tape.free(keys[event[1]])
        self.operations += part.operations
        made = tuple(
            self._tape.adopt(keys[at], tuple(like.shape), like.stride(), like.dtype)
            for at, like in zip(part.results, part.likes, strict=True)
        )
        return made if part.is_tuple else made[0] if made else None
