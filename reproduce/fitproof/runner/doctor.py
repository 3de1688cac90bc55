"""What this machine can do, and the command that fixes what it cannot. Imports no torch; a child process asks it.

Memory is shown by all its meanings side by side, because they differ: what the CUDA runtime calls total and free, what
the monitor calls total, used and reserved, what one process holds, and what torch's allocator says of the same moment.
"""

import json
import os
import platform
import select
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from ..errors import FitproofError
from .companion import Companion, CompanionLost
from .guard import INSTALL_VLLM
from .monitors import open_monitor
from .monitors.host import unique_set_size
from .processes import oom_kills, without_secrets

# (package, oldest version that works, what cannot be done without it, how to get it)
_PACKAGES = (
    ("torch", "2.11", "run and predict", "pip install -e '.[gpu]'"),
    ("transformers", "5.17", "run and predict", "pip install -e '.[gpu]'"),
    ("peft", "0.21", "run and predict", "pip install -e '.[gpu]'"),
    ("nvidia-ml-py", "12", "watch an NVIDIA device", "pip install -e '.[gpu]'"),
    ("bitsandbytes", "0.50.2", "use quantization=nf4 or 8-bit optimizers", "pip install -e '.[nf4]'"),
    ("vllm", "0.33", "use rollout_engine=vllm", INSTALL_VLLM),
    ("duckdb", "1.4", "verify, reproduce and build", "pip install -e ."),
    ("zstandard", "0.23", "read and pack archives", "pip install -e ."),
    ("datasets", "4", "load views by name", "pip install -e '.[loaders]'"),
)
_TORCH_SECONDS = 120
_OPTIONAL = ("nvidia-ml-py", "bitsandbytes", "vllm", "datasets")

_TORCH_SAYS = """
import json, os, torch
says = {"version": torch.__version__, "cuda": torch.version.cuda, "hip": torch.version.hip,
        "device": torch.cuda.is_available()}
if says["device"]:
    block = torch.ones(16 << 20, device="cuda")  # 64 MiB, so that every number has something to count
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    uuid = str(getattr(torch.cuda.get_device_properties(0), "uuid", "")) or None
    says.update(uuid=uuid, total=total, free=free, allocated=torch.cuda.memory_allocated(),
                reserved=torch.cuda.memory_reserved())
    print(json.dumps(says), flush=True)
    input()  # hold it while the monitor looks
else:
    print(json.dumps(says), flush=True)
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One finding. `state`: ok, info, missing (something will not work) or optional (only an extra will not work)."""

    subject: str
    found: str
    state: str
    fix: str = ""


def examine() -> list[Row]:
    """All findings about this machine, in the order a person reads them. Never raises for what is missing."""
    rows = [_python(), *_packages(), *_host()]
    nvidia = _nvidia()
    rows += nvidia or _amd()
    rows += _torch()
    return rows + _verdicts(rows)


def _python() -> Row:
    version = platform.python_version()
    if sys.version_info >= (3, 11) and sys.platform == "linux":
        return Row(subject="python", found=f"{version} on {platform.system()}", state="ok")
    return Row(
        subject="python", found=f"{version} on {platform.system()}", state="missing", fix="use Python 3.11+ on Linux"
    )


def _packages() -> list[Row]:
    rows = []
    for name, oldest, purpose, fix in _PACKAGES:
        lacking = "optional" if name in _OPTIONAL else "missing"
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            rows.append(Row(subject=name, found=f"not installed: cannot {purpose}", state=lacking, fix=fix))
            continue
        if _numbers(version) < _numbers(oldest):
            rows.append(Row(subject=name, found=f"{version}, older than {oldest}", state=lacking, fix=fix + " -U"))
        else:
            rows.append(Row(subject=name, found=version, state="ok"))
    return rows


def _numbers(version: str) -> tuple[int, ...]:
    """'2.11.0+cu130' -> (2, 11, 0); stops at the first part that is no number."""
    numbers = []
    for part in version.split("+")[0].split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)


def _host() -> list[Row]:
    host = open_monitor("cpu")
    rows = [
        Row(subject="host cores", found=str(len(os.sched_getaffinity(0))), state="info"),
        Row(subject="host memory, total and available", found=_sizes(host.total(), host.free()), state="info"),
        Row(subject="host memory, this process alone", found=_sizes(unique_set_size(os.getpid())), state="info"),
    ]
    if oom_kills() is None:
        found = "no cgroup counter readable: a trial that dies by SIGKILL stays 'unknown'"
        rows.append(Row(subject="host out-of-memory evidence", found=found, state="info"))
    else:
        rows.append(Row(subject="host out-of-memory evidence", found="cgroup counter readable", state="ok"))
    shm = shutil.disk_usage("/dev/shm").free if Path("/dev/shm").is_dir() else 0
    rows.append(Row(subject="shared memory, free", found=_sizes(shm), state="info"))
    return rows


def _nvidia() -> list[Row]:
    """The driver, its runtime's numbers and the monitor's, with no context held. Empty where there is no driver."""
    signs = (Path("/proc/driver/nvidia"), Path("/dev/nvidia0"), Path("/dev/dxg"))
    if not shutil.which("nvidia-smi") and not any(sign.exists() for sign in signs):
        return []
    try:
        probe = Companion("fitproof.runner.ballast", "probe")
        try:
            facts = probe.receive(60.0)
        finally:
            probe.close()
        if facts is None:
            raise CompanionLost("the driver did not answer within 60 s")
        monitor = open_monitor("cuda", facts["uuid"])
    except (CompanionLost, FitproofError) as error:
        found = str(error).splitlines()[0]
        return [Row(subject="NVIDIA device", found=found, state="missing", fix="nvidia-smi  # must list the device")]
    used, _ = monitor.read(None)
    return [
        Row(subject="NVIDIA device", found=f"{facts['name']}, CUDA up to {facts['cuda']}", state="ok"),
        Row(subject="driver version", found=monitor.driver_version() or "not told", state="info"),
        Row(subject="CUDA runtime, total and free", found=_sizes(facts["total"], facts["free"]), state="info"),
        Row(subject="monitor, total and free", found=_sizes(monitor.total(), monitor.free()), state="info"),
        Row(subject="monitor, used and reserved", found=_sizes(used, monitor.reserved()), state="info"),
        Row(subject="a bare context takes", found=_sizes(facts["context"]), state="info"),
        Row(
            subject="runtime's free less monitor's free",
            found=f"{facts['runtime_minus_monitor'] / 2**20:+.0f} MiB",
            state="info",
        ),
    ]


def _amd() -> list[Row]:
    try:
        monitor = open_monitor("rocm")
    except FitproofError:
        fix = "fitproof run cpu_tiny  # measures on the CPU"
        return [Row(subject="GPU", found="none that this machine shows", state="optional", fix=fix)]
    return [
        Row(subject="AMD device", found=monitor.name(), state="ok"),
        Row(subject="monitor, total and free", found=_sizes(monitor.total(), monitor.free()), state="info"),
        Row(subject="emulated capacities", found="need an NVIDIA device", state="optional"),
    ]


def _torch() -> list[Row]:
    """What torch itself sees, asked in a process of its own that ends at once."""
    command = [sys.executable, "-c", _TORCH_SAYS]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=without_secrets(os.environ),
        text=True,
    )
    try:
        if not select.select([process.stdout], [], [], _TORCH_SECONDS)[0]:
            raise subprocess.TimeoutExpired(command, _TORCH_SECONDS)
        line = process.stdout.readline()
        says = json.loads(line) if line else None
        rows = _torch_device(says, process.pid) if says and says["device"] else []
        _, errors = process.communicate("\n", timeout=_TORCH_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return [
            Row(subject="torch", found=f"did not answer within {_TORCH_SECONDS} s", state="missing", fix="nvidia-smi")
        ]
    if says is None:
        last = errors.strip().splitlines()[-1:] or ["it ended without a word"]
        return [Row(subject="torch", found=last[0], state="missing", fix="pip install -e '.[gpu]'")]
    built = f"CUDA {says['cuda']}" if says["cuda"] else f"ROCm {says['hip']}" if says["hip"] else "CPU only"
    return [Row(subject="torch build", found=built, state="ok" if says["device"] else "info"), *rows]


def _torch_device(says: dict, pid: int) -> list[Row]:
    """The four numbers of one process that holds a tensor of 64 MiB, at one moment."""
    try:
        held = open_monitor("cuda" if says["cuda"] else "rocm", says["uuid"]).read(pid)[1]
    except FitproofError:
        held = None
    return [
        Row(
            subject="torch holding a 64 MiB tensor: allocated, reserved",
            found=_sizes(says["allocated"], says["reserved"]),
            state="info",
        ),
        Row(subject="the same process by the monitor", found=_sizes(held), state="info"),
        Row(subject="the device by the runtime, used", found=_sizes(says["total"] - says["free"]), state="info"),
    ]


def _verdicts(rows: list[Row]) -> list[Row]:
    """What will work, in the words of the commands."""
    lacking = {row.subject for row in rows if row.state == "missing"}
    stack = not lacking & {"torch", "transformers", "peft", "python"}
    has_gpu = any(row.subject in ("NVIDIA device", "AMD device") and row.state == "ok" for row in rows)
    sees_gpu = any(row.subject == "torch build" and row.state == "ok" for row in rows)
    works = [
        ("fitproof reproduce", not lacking & {"duckdb", "zstandard", "python"}, "pip install -e ."),
        ("fitproof run cpu_tiny", stack, "pip install -e '.[gpu]'"),
    ]
    verdicts = [
        Row(subject=name, found="will work" if yes else "will not work", state="ok" if yes else "missing",
            fix="" if yes else fix)
        for name, yes, fix in works
    ]  # fmt: skip
    if has_gpu and stack and sees_gpu:
        verdicts.append(Row(subject="fitproof run quick", found="will work", state="ok"))
    elif has_gpu and stack:
        fix = "install the torch build for this device: https://pytorch.org/get-started/locally/"
        found = "will not work: torch does not see the device"
        verdicts.append(Row(subject="fitproof run quick", found=found, state="missing", fix=fix))
    else:
        found = "will not work: no GPU" if not has_gpu else "will not work: no stack"
        verdicts.append(Row(subject="fitproof run quick", found=found, state="optional"))
    return verdicts + _engines(rows, stack=stack, gpu=has_gpu and sees_gpu)


def _engines(rows: list[Row], *, stack: bool, gpu: bool) -> list[Row]:
    """Which rollout engines will work: those of our own stack on a CPU too, vllm where it and a device are."""
    fix = "" if stack else "pip install -e '.[gpu]'"
    found = "will work" if stack else "will not work: no stack"
    engines = [Row(subject=f"rollout_engine={name}", found=found, state="ok" if stack else "missing", fix=fix)
               for name in ("cuda_graph", "hf_generate", "hf_paged")]  # fmt: skip
    (vllm,) = (row for row in rows if row.subject == "vllm")
    lacks = [what for what, holds in (("no stack", stack), ("no vllm of that version", vllm.state == "ok"),
                                      ("no GPU that torch sees", gpu)) if not holds]  # fmt: skip
    if not lacks:
        return [*engines, Row(subject="rollout_engine=vllm", found="will work", state="ok")]
    found = "will not work: " + ", ".join(lacks)
    return [*engines, Row(subject="rollout_engine=vllm", found=found, state="optional", fix=fix or vllm.fix)]


def _sizes(*values: int | None) -> str:
    return ", ".join("not told" if v is None else f"{v / 2**20:,.0f} MiB" for v in values)
