"""Writes events.jsonl: stages with their memory, facts, and the failure that ended a trial.

A meter answers three calls: `begin()` and `end()` of a stage give dicts of the memory fields of those events, and
`reserved_bytes()` gives what is reserved now. A simulation brings its own meter.
"""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from typing import IO, Protocol

import torch

from .failures import describe_failure

_STATS = {
    "allocated_bytes": "allocated_bytes.all.current",
    "reserved_bytes": "reserved_bytes.all.current",
    "peak_allocated_bytes": "allocated_bytes.all.peak",
    "peak_reserved_bytes": "reserved_bytes.all.peak",
    "requested_bytes": "requested_bytes.all.current",
    "peak_requested_bytes": "requested_bytes.all.peak",
    "alloc_retries": "num_alloc_retries",
    "oom_count": "num_ooms",
}


class MemoryMeter(Protocol):
    def begin(self) -> dict[str, int]: ...

    def end(self) -> dict[str, int]: ...

    def reserved_bytes(self) -> int: ...


class CudaMeter:
    """The caching allocator's own counters. Peaks are since the last `begin`."""

    def __init__(self, device: torch.device):
        self.device = device

    def begin(self) -> dict[str, int]:
        torch.cuda.reset_peak_memory_stats(self.device)
        now = self._read()
        return {name: now[name] for name in ("allocated_bytes", "reserved_bytes")}

    def end(self) -> dict[str, int]:
        torch.cuda.synchronize(self.device)  # the stage is over when its kernels are; also what its seconds mean
        return self._read()

    def reserved_bytes(self) -> int:
        return torch.cuda.memory_reserved(self.device)

    def _read(self) -> dict[str, int]:
        stats = torch.cuda.memory_stats(self.device)
        return {name: int(stats.get(key, 0)) for name, key in _STATS.items()}  # empty before the first allocation


class CpuMeter:
    """Resident memory of this process stands in for the device's.

    allocated = reserved = requested = unique set size (USS): private pages, so that what a fork server shares is not
    counted. The peak is the kernel's resident high-water mark since `begin`, less the pages shared at `end`; where
    the mark cannot be reset it is the larger of the readings at begin and end. `reserved_bytes()`, which sizes the KV
    pool, is the growth over `baseline`, the USS when the meter was made.
    """

    def __init__(self) -> None:
        self.baseline = unique_set_bytes()
        self._at_begin = self.baseline
        self._has_mark = False

    def begin(self) -> dict[str, int]:
        try:
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")  # resets VmHWM to the current resident set
            self._has_mark = True
        except OSError:
            self._has_mark = False
        self._at_begin = unique_set_bytes()
        return {"allocated_bytes": self._at_begin, "reserved_bytes": self._at_begin}

    def end(self) -> dict[str, int]:
        now = unique_set_bytes()
        peak = max(self._at_begin, now)
        if self._has_mark:
            resident, mark = _status_bytes("VmRSS"), _status_bytes("VmHWM")
            peak = max(peak, mark - max(0, resident - now))
        return {
            "allocated_bytes": now,
            "reserved_bytes": now,
            "peak_allocated_bytes": peak,
            "peak_reserved_bytes": peak,
            "requested_bytes": now,
            "peak_requested_bytes": peak,
            "alloc_retries": 0,
            "oom_count": 0,
        }

    def reserved_bytes(self) -> int:
        return max(0, unique_set_bytes() - self.baseline)


def unique_set_bytes() -> int:
    """Private resident bytes of this process."""
    total = 0
    with open("/proc/self/smaps_rollup") as file:
        for line in file:
            if line.startswith(("Private_Clean:", "Private_Dirty:", "Private_Hugetlb:")):
                total += int(line.split()[1]) * 1024
    return total


def _status_bytes(key: str) -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(key + ":"))


class Recorder:
    """Appends events to `stream` (text, or None to keep nothing). Each event is one write and one flush, so a kill
    leaves at most one torn last line. Stages do not nest; what lies between them is `idle`, at least
    `settle_seconds` after each.
    """

    def __init__(
        self,
        stream: IO[str] | None,
        meter: MemoryMeter,
        clock: Callable[[], int] = time.monotonic_ns,
        settle_seconds: float = 0.0,
    ):
        self._stream, self.meter, self._clock, self._settle_seconds = stream, meter, clock, settle_seconds
        self._stage: tuple[str, int] | None = None
        self._last_step = 0

    def _write(self, event: str, **fields: object) -> None:
        if self._stream is not None:
            line = {"t_ns": self._clock(), "event": event, **fields}
            self._stream.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
            self._stream.flush()

    @contextlib.contextmanager
    def stage(self, name: str, step: int, tokens: int | None = None) -> Iterator[None]:
        """Everything inside belongs to stage `name` of `step`; `tokens` are the positions it processes."""
        if self._stage is not None:
            raise RuntimeError(f"stage {name!r} begins inside stage {self._stage[0]!r}")
        self._stage, self._last_step = (name, step), step
        # An exception leaves the stage open: `failure` then says where it happened, and no end is written.
        self._write("stage_begin", stage=name, step=step, **self.meter.begin())
        yield
        self._write("stage_end", stage=name, step=step, **self.meter.end(), tokens=tokens)
        self._stage = None
        # The outside sampler must see the device once while nothing happens on it: only such a reading can be set
        # against the reserved bytes of the event above.
        time.sleep(self._settle_seconds)

    def fact(self, name: str, value: int | str) -> None:
        self._write("fact", name=name, value=value)

    def downshift(self, logits_chunk: int) -> None:
        self._write("downshift", logits_chunk=logits_chunk)

    def reserved_bytes(self) -> int:
        return self.meter.reserved_bytes()

    def failure(self, error: BaseException, device: torch.device | None) -> None:
        """Record `error` with the allocator's state; `device` is None where it could not even be reached."""
        stage, step = self._stage or ("idle", self._last_step)
        self._write("failure", stage=stage, step=step, **describe_failure(error, device))

    def finished(self, completed_steps: int) -> None:
        self._write("finished", completed_steps=completed_steps)
