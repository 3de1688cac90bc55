"""The supervisor's hand on the sampler: one external process for the whole panel, one memory.csv per trial."""

from dataclasses import dataclass
from pathlib import Path

from ..schema.records import MEMORY_CSV_HEADER
from .companion import Companion, CompanionLost

DEFAULT_INTERVAL_NS = {"cuda": 10_000_000, "rocm": 10_000_000, "cpu": 20_000_000}


@dataclass(frozen=True, kw_only=True, slots=True)
class Cadence:
    """What the sampler achieved; intervals are null where there were no samples."""

    samples: int
    median_interval_ns: int | None
    max_interval_ns: int | None


NO_SAMPLES = Cadence(samples=0, median_interval_ns=None, max_interval_ns=None)


class Sampling:
    """Starts and stops sampling around trials. `interval_ns=None`: off; memory.csv then holds its header alone."""

    def __init__(self, kind: str, uuid: str | None, interval_ns: int | None):
        self._arguments = (kind,) if uuid is None else (kind, uuid)
        self.interval_ns = interval_ns
        self._sampler: Companion | None = None

    def start(self, path: Path) -> None:
        """Begin to sample into `path`, which must not exist; returns after the first sample. Raises CompanionLost."""
        if self.interval_ns is None:
            path.write_text(MEMORY_CSV_HEADER + "\n", encoding="ascii")
            return
        try:
            if self._sampler is None:
                self._sampler = Companion("fitproof.runner.sampler", *self._arguments)
                if self._sampler.receive(60.0) is None:
                    raise CompanionLost("the sampler did not start within 60 s")
            self._sampler.ask({"start": str(path.resolve()), "interval_ns": self.interval_ns})
        except CompanionLost:
            self.close()
            raise

    def watch(self, pid: int) -> None:
        """From now on `pid` is the trial's process."""
        if self._sampler is not None:
            self._sampler.send({"pid": pid})

    def stop(self) -> Cadence:
        """Take the last sample and end the file. Raises CompanionLost; the next trial then gets a new sampler."""
        if self._sampler is None:
            return NO_SAMPLES
        try:
            return Cadence(**self._sampler.ask({"stop": True}))
        except CompanionLost:
            self.close()
            raise

    def close(self) -> None:
        if self._sampler is not None:
            self._sampler.close()
            self._sampler = None
