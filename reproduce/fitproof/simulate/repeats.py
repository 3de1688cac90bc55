"""Parts of a trial that make the same events again and again: run a few times, then copied.

Micro-batches of one stage, prefills of further waves, captures of a later step. A part is copied only after two runs
of it in a row made the same events, up to the names of the keys, and only if it frees nothing that was there before.
Shapes decide the events and they stay, so it goes on like that; tests compare with runs that copy nothing.
"""

from collections.abc import Callable, Hashable

import torch

from .tape import Tape
from .template import Event, Template, expanded


class Repeats:
    """Keeps templates of one trial by name. `enabled=False` runs everything."""

    def __init__(self, tape: Tape, *, enabled: bool = True):
        self._tape, self._enabled = tape, enabled
        self._last: dict[Hashable, Template | None] = {}
        self._results: dict[Hashable, int | None] = {}
        self._likes: dict[Hashable, torch.Tensor] = {}
        self._ready: set[Hashable] = set()

    def call(self, name: Hashable, function: Callable[[], torch.Tensor | None], *, trusted: bool = False):
        """function(), which returns one new tensor or None, or a copy of its events. `trusted`: one run is enough."""
        if name in self._ready:
            return self._copy_call(name)
        start = len(self._tape.events)
        result = function()
        key = None if result is None else self._tape.key_of(result)
        self.note(name, start, key, trusted=trusted)
        if name in self._ready and result is not None:
            shape, stride = result.shape, result.stride()
            self._likes[name] = torch.empty_strided(shape, stride, dtype=result.dtype, device="cpu")
        return result

    def is_ready(self, name: Hashable) -> bool:
        return name in self._ready

    def note(self, name: Hashable, start: int, result_key: int | None = None, *, trusted: bool = False) -> None:
        """The events from `start` on are one run of `name`."""
        if not self._enabled:
            return
        template, local = _template(self._tape, self._tape.events[start:])
        last = self._last.get(name)
        if template is not None and (trusted or (last is not None and last.events == template.events)):
            self._ready.add(name)
            self._results[name] = local.get(result_key)
        self._last[name] = template

    def copy(self, name: Hashable) -> int:
        """The events of `name` once more, in the tape's present pool and stream; the first of their keys."""
        return self._tape.copy(self._last[name])

    def _copy_call(self, name: Hashable) -> torch.Tensor | None:
        first, at = self.copy(name), self._results[name]
        if at is None:
            return None
        like = self._likes[name]
        return self._tape.adopt(first + at, tuple(like.shape), like.stride(), like.dtype)


def _template(tape: Tape, events: list[Event]) -> tuple[Template | None, dict[int, int]]:
    """The template of events, None where they free something older or are more than allocations; and key -> index."""
    local: dict[int, int] = {}
    made, labels = [], []
    for whole in events:
        inside = whole[1].labels if whole[0] == "copy" else None
        for event in expanded((whole,)):
            if event[0] == "alloc":
                local[event[1]] = len(local)
                labels.append(tape.labels[event[1]] if inside is None else inside[event[1] - whole[2]])
                made.append(("alloc", local[event[1]], event[2]))
            elif event[0] == "free" and event[1] in local:
                made.append(("free", local[event[1]]))
            else:
                return None, local
    return Template(events=tuple(made), labels=tuple(labels)), local
