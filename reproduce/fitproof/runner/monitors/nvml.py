"""NVIDIA's management library (package nvidia-ml-py): counters of the driver, without a context on the device.

Device memory is read in its second version where the driver has it: there `used` leaves out what the firmware
reserves (the H200 reserves about 615 MiB that the CUDA runtime never shows), which version one counts as used.
"""

import contextlib
import os

from ...errors import EnvironmentLacks


class NvmlMonitor:
    """One NVIDIA device. `uuid` is the CUDA driver's, without prefix; None takes the first device of the machine.

    NVML counts all devices and ignores CUDA_VISIBLE_DEVICES, so an index would not do.
    """

    def __init__(self, uuid: str | None = None):
        try:
            import pynvml
        except ImportError:
            raise EnvironmentLacks(
                "NVIDIA monitor", found="package nvidia-ml-py is not installed", hint="pip install -e '.[gpu]'"
            ) from None
        self._nvml = pynvml
        try:
            pynvml.nvmlInit()
            self._handle = self._find(uuid)
            self.device_index = self._index()
        except pynvml.NVMLError as error:
            raise EnvironmentLacks(
                "NVIDIA monitor",
                found=f"NVML: {error}",
                expected="a device with its driver",
                hint="nvidia-smi  # or measure on the CPU: fitproof run cpu_tiny",
            ) from None
        self._version = pynvml.nvmlMemory_v2
        try:
            pynvml.nvmlDeviceGetMemoryInfo(self._handle, version=self._version)
        except (pynvml.NVMLError, AttributeError):
            self._version = None

    def _find(self, uuid: str | None):
        if uuid is None:
            return self._nvml.nvmlDeviceGetHandleByIndex(0)
        try:
            return self._nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
        except self._nvml.NVMLError:  # a slice of a device has a UUID of its own
            return self._nvml.nvmlDeviceGetHandleByUUID(f"MIG-{uuid}")

    def _index(self) -> int:
        try:
            return int(self._nvml.nvmlDeviceGetIndex(self._handle))
        except self._nvml.NVMLError:  # slices have none
            return 0

    def _memory(self):
        if self._version is None:
            return self._nvml.nvmlDeviceGetMemoryInfo(self._handle)
        return self._nvml.nvmlDeviceGetMemoryInfo(self._handle, version=self._version)

    def read(self, pid: int | None) -> tuple[int, int | None]:
        return int(self._memory().used), None if pid is None else self._process_used(pid)

    def _process_used(self, leader: int) -> int | None:
        """Sum over the processes in the trial's session. Containers often show foreign pids or no sizes: then None."""
        try:
            processes = self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle)
        except self._nvml.NVMLError:
            return None
        sizes = [p.usedGpuMemory for p in processes if p.pid == leader or _session(p.pid) == leader]
        return sum(map(int, sizes)) if sizes and None not in sizes else None

    def total(self) -> int:
        return int(self._memory().total)

    def free(self) -> int:
        return int(self._memory().free)

    def reserved(self) -> int | None:
        """Bytes that the driver and firmware keep; None where only version one is there."""
        return int(self._memory().reserved) if self._version is not None else None

    def name(self) -> str:
        name = self._nvml.nvmlDeviceGetName(self._handle)
        return name.decode() if isinstance(name, bytes) else name

    def driver_version(self) -> str | None:
        with contextlib.suppress(self._nvml.NVMLError):
            version = self._nvml.nvmlSystemGetDriverVersion()
            return version.decode() if isinstance(version, bytes) else version
        return None


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:  # a pid of another namespace, or a process that has just ended
        return None
