"""Progress on stderr: a bar on a terminal, one plain line a slot elsewhere."""

import sys
from collections import Counter

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from .plan import Slot, describe


class PanelProgress:
    """`total`: slots that are still to be measured. Use as a context manager."""

    def __init__(self, panel: str, total: int):
        self._console = Console(stderr=True, highlight=False)
        self._total, self._number = total, 0
        self._slot: Slot | None = None
        self._counts: Counter[str] = Counter()
        self._bar: Progress | None = None
        if sys.stderr.isatty():
            self._bar = Progress(
                TextColumn("{task.fields[panel]}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.description}"),
                console=self._console,
            )
            self._task = self._bar.add_task("", total=total, panel=panel)

    def __enter__(self) -> "PanelProgress":
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def start(self, slot: Slot) -> None:
        if slot is not self._slot:  # a replacement belongs to the slot it replaces
            self._slot, self._number = slot, self._number + 1
        if self._bar is not None:
            self._bar.update(self._task, description=describe(slot), completed=min(self._number - 1, self._total))

    def end(self, slot: Slot, result: dict | None) -> None:
        status = result["status"] if result else "interrupted"
        self._counts[status] += 1
        text = f"[{self._number}/{self._total}] {describe(slot)}: {status}"
        if result and result["failure_class"]:
            text += f" ({result['failure_class']} in {result['failure_stage'] or 'no stage'})"
        if result:
            text += f", {result['wall_ns'] / 1e9:.1f} s"
        if self._bar is None:
            self._console.print(text, markup=False, soft_wrap=True)
            return
        if status != "completed":
            self._console.print(text, markup=False)
        counts = ", ".join(f"{n} {name}" for name, n in sorted(self._counts.items()))
        self._bar.update(self._task, description=counts, completed=min(self._number, self._total))
