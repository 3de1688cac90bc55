"""The external sampler: a process of its own that watches the device while a trial runs.

    python -m fitproof.runner.sampler DEVICE_KIND [UUID]

It imports no torch and holds no context. Requests, one JSON object a line: {"start": path, "interval_ns": n} takes
the first sample before it answers; {"pid": n} names the trial's process; {"stop": true} takes the last sample and
answers with the counts. Rows are kept for at most a quarter of a second and written as whole lines.
"""

import gc
import os
import statistics
import sys
import time
from array import array
from itertools import pairwise

from ..errors import FitproofError
from ..schema.records import MEMORY_CSV_HEADER
from .companion import serve, tell
from .monitors import Monitor, open_monitor
from .processes import die_with_parent

_FLUSH_NS = 250_000_000


class Sampler:
    """Samples on a fixed grid of CLOCK_MONOTONIC: a late sample does not shift the next, a missed one is left out."""

    def __init__(self, monitor: Monitor):
        self._monitor = monitor
        self._file: int | None = None

    def answer(self, request: dict) -> dict | None:
        if "start" in request:
            return self._start(request["start"], request["interval_ns"])
        if "pid" in request:
            self._pid = request["pid"]
            return None
        return self._stop()

    def idle(self) -> float | None:
        """Take a sample if one is due; seconds until the next."""
        if self._file is None:
            return None
        now = time.monotonic_ns()
        if now >= self._due:
            self._sample()
            missed = (now - self._due) // self._interval
            self._due += (missed + 1) * self._interval
        return max(0, self._due - time.monotonic_ns()) / 1e9

    def _start(self, path: str, interval_ns: int) -> dict:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        self._rows = [MEMORY_CSV_HEADER]
        self._times = array("q")
        self._pid: int | None = None
        self._interval, self._written = interval_ns, 0
        self._sample()
        self._due = self._times[0] + interval_ns
        return {"started": True}

    def _sample(self) -> None:
        t_ns = time.monotonic_ns()
        device, process = self._monitor.read(self._pid)
        self._times.append(t_ns)
        self._rows.append(f"{t_ns},{self._monitor.device_index},{device},{'' if process is None else process}")
        if t_ns - self._written >= _FLUSH_NS:
            self._flush()
            self._written = t_ns

    def _flush(self) -> None:
        data = "".join(row + "\n" for row in self._rows).encode()
        self._rows.clear()
        if os.write(self._file, data) != len(data):
            raise OSError("short write to memory.csv; is the disk full?")

    def _stop(self) -> dict:
        self._sample()
        self._flush()
        os.fsync(self._file)
        os.close(self._file)
        self._file = None
        gaps = [later - earlier for earlier, later in pairwise(self._times)]
        return {
            "samples": len(self._times),
            "median_interval_ns": int(statistics.median_low(gaps)),
            "max_interval_ns": max(gaps),
        }


def main(kind: str, uuid: str | None = None) -> None:
    die_with_parent(os.getppid())
    try:
        sampler = Sampler(open_monitor(kind, uuid))
    except FitproofError as error:
        tell({"error": str(error)})
        return
    gc.freeze()
    gc.disable()  # no pauses between samples; nothing here makes cycles
    tell({"ready": True})
    serve(sampler.answer, idle=sampler.idle)


if __name__ == "__main__":
    main(*sys.argv[1:])
