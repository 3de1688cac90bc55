"""AMD devices through the kernel's own counters: sysfs for the device, fdinfo for the process. No library needed.

Not measured by us on hardware yet: written from the kernel's documentation of amdgpu and of DRM client usage.
"""

import re
from pathlib import Path

from ...errors import EnvironmentLacks

_CARDS = Path("/sys/class/drm")
_CLIENT = re.compile(r"^drm-client-id:\s*(\d+)", re.M)
_VRAM = re.compile(r"^drm-(?:memory-vram|resident-vram0?|total-vram0?):\s*(\d+)\s*(KiB|MiB)?", re.M)
_UNITS = {"": 1, "KiB": 1024, "MiB": 1024**2}


class AmdgpuMonitor:
    """The first card whose driver shows video memory counters. `cards` and `processes` are folders, for tests."""

    def __init__(self, cards: Path = _CARDS, processes: Path = Path("/proc")):
        self._processes = processes
        found = sorted(cards.glob("card[0-9]*/device/mem_info_vram_total"))
        if not found:
            raise EnvironmentLacks(
                "AMD monitor",
                found=f"no mem_info_vram_total under {cards}",
                expected="a device with the amdgpu driver",
                hint="rocm-smi",
            )
        self._device = found[0].parent
        self.device_index = 0

    def _counter(self, name: str) -> int:
        return int((self._device / name).read_text())

    def read(self, pid: int | None) -> tuple[int, int | None]:
        return self._counter("mem_info_vram_used"), None if pid is None else self._process_used(pid)

    def _process_used(self, pid: int) -> int | None:
        """Video memory of the process's DRM clients; descriptors that share a client are counted once."""
        clients: dict[str, int] = {}
        try:
            for entry in (self._processes / str(pid) / "fdinfo").iterdir():
                text = entry.read_text()
                client, vram = _CLIENT.search(text), _VRAM.search(text)
                if client and vram:
                    clients[client[1]] = int(vram[1]) * _UNITS[vram[2] or ""]
        except OSError:
            return None
        return sum(clients.values()) if clients else None

    def total(self) -> int:
        return self._counter("mem_info_vram_total")

    def free(self) -> int:
        return self.total() - self._counter("mem_info_vram_used")

    def name(self) -> str:
        try:
            return (self._device / "product_name").read_text().strip() or "AMD GPU"
        except OSError:
            return "AMD GPU"
