"""CPU trials: the unique set size of the trial's process, which is what its end would give back to the machine.

Pages shared with the fork server (the imported stack) are not counted until the trial writes to them.
"""

import re
from pathlib import Path

_PRIVATE = re.compile(rb"^Private_(?:Clean|Dirty|Hugetlb):\s*(\d+) kB", re.M)


class HostMonitor:
    """The host's memory. Device used and process used are the same number here; 0 and None while no trial exists."""

    device_index = 0

    def read(self, pid: int | None) -> tuple[int, int | None]:
        used = None if pid is None else unique_set_size(pid)
        return used or 0, used

    def total(self) -> int:
        return _meminfo("MemTotal")

    def free(self) -> int:
        return _meminfo("MemAvailable")

    def name(self) -> str:
        return "cpu"


def unique_set_size(pid: int) -> int | None:
    """Private bytes of a process; None when it has ended (a zombie has no memory left)."""
    try:
        text = Path("/proc", str(pid), "smaps_rollup").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    sizes = _PRIVATE.findall(text)
    return sum(map(int, sizes)) * 1024 if sizes else None


def _meminfo(name: str) -> int:
    return int(re.search(rf"^{name}:\s*(\d+) kB", Path("/proc/meminfo").read_text(), re.M)[1]) * 1024
