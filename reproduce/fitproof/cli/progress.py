"""A progress bar on stderr for anything that takes over two seconds; none when stderr is not a terminal."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

QUIET_SECONDS = 2.0


@contextmanager
def progress_bar(what: str, unit: str) -> Iterator[Callable[[int, int], None] | None]:
    """Yields `progress(done, total)`, or None where nobody would see a bar. `unit` names what is counted."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    started = time.monotonic()
    bar = Progress(
        TextColumn(f"{what} {{task.completed:,}}/{{task.total:,}} {unit}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task(what, total=0)
    is_shown = False

    def progress(done: int, total: int) -> None:
        nonlocal is_shown
        bar.update(task, completed=done, total=total)
        if not is_shown and time.monotonic() - started > QUIET_SECONDS:
            bar.start()
            is_shown = True

    try:
        yield progress
    finally:
        if is_shown:
            bar.stop()
