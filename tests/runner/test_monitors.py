"""Monitors over fake sources: a fake management library, a fake sysfs tree, and this process's own memory."""

import os
import sys
from types import SimpleNamespace

import pytest
from fitproof.errors import EnvironmentLacks
from fitproof.runner.monitors import open_monitor
from fitproof.runner.monitors.amdgpu import AmdgpuMonitor
from fitproof.runner.monitors.host import HostMonitor, unique_set_size
from fitproof.runner.monitors.nvml import NvmlMonitor


class FakeNvml(SimpleNamespace):
    """pynvml as far as the monitor uses it: one device, GPU-aa, with 1000 bytes of which 60 are reserved."""

    class NVMLError(Exception):
        pass

    nvmlMemory_v2 = 2  # noqa: N815

    def __init__(self, *, has_v2=True, processes=()):
        super().__init__(has_v2=has_v2, processes=processes)

    def nvmlInit(self):  # noqa: N802
        pass

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        return f"index {index}"

    def nvmlDeviceGetHandleByUUID(self, uuid):  # noqa: N802
        if uuid not in ("GPU-aa", "MIG-bb"):
            raise self.NVMLError("Not Found")
        return uuid

    def nvmlDeviceGetIndex(self, handle):  # noqa: N802
        if handle.startswith("MIG"):
            raise self.NVMLError("Invalid Argument")
        return 5

    def nvmlDeviceGetMemoryInfo(self, handle, version=None):  # noqa: N802
        if version is None:
            return SimpleNamespace(total=1000, used=360, free=640)
        if not self.has_v2:
            raise self.NVMLError("Function Not Found")
        return SimpleNamespace(total=1000, used=300, free=640, reserved=60)

    def nvmlDeviceGetComputeRunningProcesses(self, handle):  # noqa: N802
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in self.processes]


@pytest.fixture
def nvml(monkeypatch):
    def install(**options):
        monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(**options))

    return install


def test_nvml_reads_the_second_version_where_there_is_one(nvml):
    nvml()
    monitor = NvmlMonitor("aa")
    assert (monitor.read(None), monitor.free(), monitor.total(), monitor.reserved()) == ((300, None), 640, 1000, 60)
    assert monitor.device_index == 5
    nvml(has_v2=False)
    monitor = NvmlMonitor()
    assert (monitor.read(None), monitor.free(), monitor.reserved()) == ((360, None), 640, None)


def test_nvml_finds_slices_and_says_what_is_missing(nvml):
    nvml()
    assert NvmlMonitor("bb").device_index == 0
    with pytest.raises(EnvironmentLacks, match="Not Found"):
        NvmlMonitor("cc")


@pytest.mark.parametrize(
    ("processes", "expected"),
    [
        ([(os.getpid(), 40), (1 << 22, 7)], 40),
        ([], None),
        ([(1 << 22, 7)], None),  # pids of another namespace
        ([(os.getpid(), None)], None),  # the driver gives no size
    ],
)
def test_nvml_counts_the_trial_alone(nvml, processes, expected):
    nvml(processes=processes)
    assert NvmlMonitor("aa").read(os.getpid()) == (300, expected)
    assert NvmlMonitor("aa").read(None) == (300, None)


def test_nvml_counts_what_the_trial_started_too(nvml):
    nvml(processes=[(os.getpid(), 40)])
    assert NvmlMonitor("aa").read(os.getsid(0)) == (300, 40)


def test_without_the_library_the_error_names_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(EnvironmentLacks, match="nvidia-ml-py") as caught:
        NvmlMonitor()
    assert caught.value.exit_code == 3


@pytest.fixture
def amd(tmp_path):
    device = tmp_path / "drm" / "card1" / "device"
    device.mkdir(parents=True)
    (tmp_path / "drm" / "card0" / "device").mkdir(parents=True)  # a display without counters
    for name, value in (("total", 4096), ("used", 1024)):
        (device / f"mem_info_vram_{name}").write_text(f"{value}\n")
    fdinfo = tmp_path / "proc" / "7" / "fdinfo"
    fdinfo.mkdir(parents=True)
    client = "drm-driver:\tamdgpu\ndrm-client-id:\t{}\ndrm-memory-vram:\t{} KiB\n"
    (fdinfo / "3").write_text(client.format(11, 8))
    (fdinfo / "4").write_text(client.format(11, 8))  # a copy of the descriptor
    (fdinfo / "5").write_text(client.format(12, 2))
    (fdinfo / "6").write_text("pos:\t0\n")
    return AmdgpuMonitor(tmp_path / "drm", tmp_path / "proc")


def test_amdgpu_reads_sysfs_and_counts_each_client_once(amd):
    assert (amd.total(), amd.free(), amd.name()) == (4096, 3072, "AMD GPU")
    assert amd.read(None) == (1024, None)
    assert amd.read(7) == (1024, 10 * 1024)
    assert amd.read(8) == (1024, None)


def test_amdgpu_without_a_card(tmp_path):
    with pytest.raises(EnvironmentLacks, match="mem_info_vram_total"):
        AmdgpuMonitor(tmp_path)


def test_host_sees_this_process_grow():
    monitor = HostMonitor()
    device, process = monitor.read(os.getpid())
    block = bytearray(os.urandom(1)) * 30_000_000
    later = unique_set_size(os.getpid())
    assert device == process > 1_000_000
    assert later - process > 20_000_000
    assert len(block) == 30_000_000
    assert monitor.read(None) == (0, None)
    assert monitor.read(2**22 + 1) == (0, None)
    assert monitor.total() >= monitor.free() > 0


def test_other_kinds_are_refused():
    with pytest.raises(EnvironmentLacks, match="cuda, rocm or cpu"):
        open_monitor("tpu")
