"""What the device, seen from outside, says about memory. One small interface, three sources.

A monitor reads counters only: no context on the device, no torch. `read` is called every few milliseconds.
"""

from typing import Protocol

from ...errors import EnvironmentLacks


class Monitor(Protocol):
    """Counters of one device, in bytes as the source gives them (baselines are subtracted when views are made)."""

    device_index: int

    def read(self, pid: int | None) -> tuple[int, int | None]:
        """(used bytes of the whole device, used bytes of the trial whose leader is `pid`); None where the source
        gives none, as in some containers, and before the trial exists."""
        ...

    def total(self) -> int:
        """Bytes the device has."""
        ...

    def free(self) -> int:
        """Bytes nobody uses."""
        ...


def open_monitor(kind: str, uuid: str | None = None) -> Monitor:
    """The monitor for a device kind: cuda (by UUID, or the first device), rocm or cpu. Raises EnvironmentLacks."""
    if kind == "cuda":
        from .nvml import NvmlMonitor

        return NvmlMonitor(uuid)
    if kind == "rocm":
        from .amdgpu import AmdgpuMonitor

        return AmdgpuMonitor()
    if kind == "cpu":
        from .host import HostMonitor

        return HostMonitor()
    raise EnvironmentLacks(f"device kind {kind!r}", found="no monitor for it", expected="cuda, rocm or cpu")
