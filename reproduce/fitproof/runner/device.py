"""The device as the supervisor sees it: name, capacity before a trial, and whether the last trial left it clean."""

import time
from dataclasses import dataclass
from typing import Protocol

from ..errors import CheckFailed, EnvironmentLacks
from ..schema.settings import Settings
from .companion import Companion, CompanionLost
from .monitors import Monitor, open_monitor

MIB = 1024**2
# No context is as small as this; a desktop's own changes are.
CLEAN_TOLERANCE_BYTES = 64 * MIB
CLEAN_PATIENCE_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Capacity:
    """Memory facts just before a trial, under the names and null rules of records.TRIAL."""

    capacity_mib: int | None
    capacity_source: str | None
    effective_capacity_bytes: int | None
    monitor_free_bytes: int | None
    baseline_used_bytes: int | None
    ballast_bytes: int | None


class Device(Protocol):
    kind: str
    name: str
    uuid: str | None

    def prepare(self, settings: Settings) -> Capacity:
        """Make the device offer what the settings ask. Raises CheckFailed when another user is on it or the ballast
        cannot leave what is asked, EnvironmentLacks when this kind of device cannot."""
        ...

    def wait_until_clean(self) -> bool:
        """Wait, within bounds, until the used memory is back where it was before the trial."""
        ...

    def free(self) -> int: ...

    def close(self) -> None: ...


def open_device(kind: str) -> Device:
    """The first device of a kind. Raises EnvironmentLacks."""
    return {"cuda": CudaDevice, "rocm": RocmDevice, "cpu": CpuDevice}[kind]()


class CpuDevice:
    kind, name, uuid = "cpu", "cpu", None

    def __init__(self) -> None:
        self._monitor = open_monitor("cpu")

    def prepare(self, settings: Settings) -> Capacity:
        return Capacity(
            capacity_mib=None,
            capacity_source=None,
            effective_capacity_bytes=None,
            monitor_free_bytes=None,
            baseline_used_bytes=None,
            ballast_bytes=None,
        )

    def wait_until_clean(self) -> bool:
        return True

    def free(self) -> int:
        return self._monitor.free()

    def close(self) -> None:
        pass


class _MonitoredDevice:
    """What GPU kinds share: the baseline, and the wait until the last trial's memory is back."""

    def __init__(self, monitor: Monitor):
        self._monitor = monitor
        self._baseline = monitor.read(None)[0]

    def wait_until_clean(self) -> bool:
        return self._wait(self._baseline)

    def _wait(self, baseline: int) -> bool:
        """Until used memory is near `baseline` and has stopped moving: a context is torn down in steps."""
        deadline = time.monotonic() + CLEAN_PATIENCE_SECONDS
        before = None
        while True:
            used = self._monitor.read(None)[0]
            if used <= baseline + CLEAN_TOLERANCE_BYTES and used == before:
                return True
            if time.monotonic() > deadline:
                return used <= baseline + CLEAN_TOLERANCE_BYTES
            before = used
            time.sleep(0.02)

    def _require_clean(self, baseline: int) -> None:
        if not self._wait(baseline):
            raise CheckFailed(
                f"device {self.name}",
                found=f"{self._monitor.read(None)[0] // MIB} MiB in use with no trial running",
                expected=f"about {baseline // MIB} MiB, as before the last trial; nothing else may use the device",
                hint="nvidia-smi  # end what holds the memory, then run the same command again",
            )

    def free(self) -> int:
        return self._monitor.free()


class CudaDevice(_MonitoredDevice):
    """The first visible CUDA device, with its ballast."""

    kind = "cuda"

    def __init__(self) -> None:
        facts = _probe()
        self.name, self.uuid = facts["name"], facts["uuid"]
        self._total, self._runtime_minus_monitor = facts["total"], facts["runtime_minus_monitor"]
        self._ballast: Companion | None = None
        super().__init__(open_monitor("cuda", self.uuid))
        self._wait(self._baseline)  # the probe's own context may still be on its way out
        self._idle = self._baseline = self._monitor.read(None)[0]

    def prepare(self, settings: Settings) -> Capacity:
        self._require_clean(self._baseline)
        if settings.capacity_source == "emulated":
            held = self._hold(settings.capacity_mib * MIB)
            effective, ballast_bytes = held["free"], held["held"]
        else:
            self._drop_ballast()
            effective, ballast_bytes = self._monitor.free() + self._runtime_minus_monitor, 0
        self._baseline = self._monitor.read(None)[0]
        return Capacity(
            capacity_mib=settings.capacity_mib or self._total // MIB,
            capacity_source=settings.capacity_source,
            effective_capacity_bytes=effective,
            monitor_free_bytes=self._monitor.free(),
            baseline_used_bytes=self._baseline,
            ballast_bytes=ballast_bytes,
        )

    def _hold(self, capacity: int) -> dict:
        """Ask the ballast, started on first use and kept for the trials that follow."""
        try:
            if self._ballast is None:
                self._ballast = Companion("fitproof.runner.ballast")
                if self._ballast.receive(60.0) is None:
                    raise CompanionLost("the ballast did not start within 60 s")
            return self._ballast.ask({"hold": capacity}, timeout_seconds=120.0)
        except CompanionLost as error:
            self.close()
            raise CheckFailed(
                f"ballast on {self.name}",
                found=str(error),
                expected=f"{capacity // MIB} MiB left free",
                hint="nvidia-smi  # is enough free, does another program use the device?",
            ) from None

    def _drop_ballast(self) -> None:
        if self._ballast is not None:
            self._ballast.close()
            self._ballast = None
            self._require_clean(self._idle)

    def close(self) -> None:
        if self._ballast is not None:
            self._ballast.close()
            self._ballast = None


class RocmDevice(_MonitoredDevice):
    """An AMD device: the whole card only, with the kernel's free bytes as effective capacity."""

    kind, uuid = "rocm", None

    def __init__(self) -> None:
        monitor = open_monitor("rocm")
        self.name = monitor.name()
        super().__init__(monitor)

    def prepare(self, settings: Settings) -> Capacity:
        if settings.capacity_source == "emulated":
            raise EnvironmentLacks(
                "emulated capacity",
                found=f"device {self.name}",
                expected="an NVIDIA device: the ballast speaks to the CUDA driver",
                hint="leave capacity_mib out to use the whole card",
            )
        self._require_clean(self._baseline)
        self._baseline, free = self._monitor.read(None)[0], self._monitor.free()
        return Capacity(
            capacity_mib=settings.capacity_mib or self._monitor.total() // MIB,
            capacity_source="device",
            effective_capacity_bytes=free,
            monitor_free_bytes=free,
            baseline_used_bytes=self._baseline,
            ballast_bytes=0,
        )

    def close(self) -> None:
        pass


def _probe() -> dict:
    companion = Companion("fitproof.runner.ballast", "probe")
    try:
        facts = companion.receive(60.0)
    except CompanionLost as error:
        raise EnvironmentLacks(
            "CUDA device",
            found=str(error),
            expected="a device with a working driver",
            hint="fitproof doctor  # or measure on the CPU: fitproof run cpu_tiny",
        ) from None
    finally:
        companion.close()
    if facts is None:
        raise EnvironmentLacks("CUDA device", found="the driver did not answer within 60 s", hint="nvidia-smi")
    return facts
