"""The ballast: a process that takes plain device memory until exactly the wanted capacity is left for a trial.

    python -m fitproof.runner.ballast          JSON lines: {"hold": capacity_bytes} -> {"free", "total", "held"}
    python -m fitproof.runner.ballast probe    one reply, then ends: what the card is, and runtime against monitor

The trial then meets a real out-of-memory of the driver at that capacity. What the ballast's own context takes counts
as ballast. It ends with its supervisor, and its memory with it.
"""

import os
import sys

from ..errors import FitproofError
from .companion import serve, tell
from .driver import Driver, DriverError
from .monitors import Monitor, open_monitor
from .processes import die_with_parent

GRANULARITY = 2 * 1024**2
"""The driver hands out device memory in pages of 2 MiB."""
LARGEST_CHUNK = 1024**3
"""Memory is held in pieces, so that another capacity costs only the difference."""


class Ballast:
    """Holds memory of one device. `context_bytes`: what its own context takes, by the monitor."""

    def __init__(self, driver: Driver, context_bytes: int):
        self._driver, self._context_bytes = driver, context_bytes
        self._chunks: list[tuple[int, int]] = []

    def hold(self, capacity: int) -> dict:
        """Adjust until `capacity` bytes are free, or as near below as 2 MiB pages allow. Raises ValueError when the
        card has less than that even without ballast."""
        while self._chunks and self._free() < capacity:
            self._drop()
        if self._free() < capacity:
            raise ValueError(f"capacity of {capacity} bytes asked, the device has {self._free()} free without ballast")
        largest = LARGEST_CHUNK
        while True:
            self._fill(capacity, largest)
            if capacity - self._free() < GRANULARITY or largest == GRANULARITY or not self._chunks:
                break
            # Page tables took more than the chunk itself: give the last one back and come closer in smaller steps.
            largest = max(GRANULARITY, self._chunks[-1][1] // 4 // GRANULARITY * GRANULARITY)
            self._drop()
        free, total = self._driver.memory()
        return {"free": free, "total": total, "held": self._context_bytes + sum(size for _, size in self._chunks)}

    def _free(self) -> int:
        return self._driver.memory()[0]

    def _fill(self, capacity: int, largest: int) -> None:
        while (excess := self._free() - capacity) > 0:
            size = min(largest, max(GRANULARITY, excess // GRANULARITY * GRANULARITY))
            address = self._driver.allocate(size)
            if address is None:
                if size == GRANULARITY:
                    raise MemoryError(f"the device refuses 2 MiB with {self._free()} bytes free")
                largest = max(GRANULARITY, size // 2 // GRANULARITY * GRANULARITY)
                continue
            self._chunks.append((address, size))

    def _drop(self) -> None:
        address, _ = self._chunks.pop()
        self._driver.release(address)


def probe(driver: Driver, monitor: Monitor) -> dict:
    """What the card is, and how the CUDA runtime's free bytes relate to the monitor's: their difference stays the same
    while contexts come and go, so later the monitor alone tells the effective capacity with no context held.
    """
    monitor_before = monitor.free()
    driver.make_context()
    free, total = driver.memory()
    monitor_after = monitor.free()
    return {
        "name": driver.name(),
        "uuid": driver.uuid(),
        "cuda": driver.version(),
        "total": total,
        "free": free + (monitor_before - monitor_after),
        "runtime_minus_monitor": free - monitor_after,
        "context": monitor_before - monitor_after,
    }


def main(mode: str = "hold") -> None:
    die_with_parent(os.getppid())
    try:
        driver = Driver()
        monitor = open_monitor("cuda", driver.uuid())
        if mode == "probe":
            tell(probe(driver, monitor))
            return
        before = monitor.free()
        driver.make_context()
        ballast = Ballast(driver, before - monitor.free())
    except FitproofError as error:
        tell({"error": f"{error.subject}: {error.found}"})  # one line: it stands inside an error of the supervisor
        return
    except DriverError as error:
        tell({"error": str(error)})
        return
    tell({"ready": True})
    serve(lambda request: ballast.hold(request["hold"]))


if __name__ == "__main__":
    main(*sys.argv[1:])
