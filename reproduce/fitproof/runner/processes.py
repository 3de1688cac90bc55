"""Process facts and process ends: sessions, parent-death signals, secrets, and what the kernel says about host memory.

Linux only. A trial runs in a session of its own; everything it starts stays in that session unless it leaves on
purpose, so killing the session leaves nothing behind that could hold device memory.
"""

import contextlib
import ctypes
import os
import re
import signal
import time
from collections.abc import Mapping
from pathlib import Path

_PR_SET_PDEATHSIG = 1
# Names under which tokens and keys travel; a trial needs none of them and its logs are published.
_SECRET = re.compile(
    r"TOKEN(?!IZER)|SECRET|PASSW|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|_KEY$|_PAT$|^AWS_|COOKIE", re.I
)
_CGROUP_ROOT = Path("/sys/fs/cgroup")


def die_with_parent(parent: int) -> None:
    """Ask the kernel to SIGKILL this process when process `parent` ends; exits at once where it already has."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:  # it died before the request was in place
        os._exit(1)


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment less every variable whose name looks like a token, key or password."""
    return {name: value for name, value in environment.items() if not _SECRET.search(name)}


def session_members(session: int) -> list[int]:
    """Pids of the living (not zombie) processes of a session."""
    members = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            stat = Path("/proc", name, "stat").read_bytes()
        except OSError:  # it ended while we looked
            continue
        # The command name may hold spaces and parentheses: count fields from the last one.
        state, _ppid, _pgrp, sid = stat[stat.rindex(b")") + 2 :].split()[:4]
        if int(sid) == session and state not in (b"Z", b"X"):
            members.append(int(name))
    return members


def kill_session(session: int, *, patience_seconds: float = 10.0) -> list[int]:
    """SIGKILL every process of a session until none is left; returns the pids that were still alive at the end.

    Repeats because a process can fork between the look and the signal. A process in uninterruptible sleep (a driver
    tearing down a large context) dies late: `patience_seconds` bounds the wait.
    """
    deadline = time.monotonic() + patience_seconds
    while members := session_members(session):
        for pid in members:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            return members
        time.sleep(0.01)
    return []


def oom_kills() -> int | None:
    """Processes of this cgroup that the kernel killed for host memory so far, or None where it does not say."""
    for path in _oom_counter_files():
        try:
            found = re.search(r"^oom_kill (\d+)$", path.read_text(), re.M)
        except OSError:
            continue
        if found:
            return int(found[1])
    return None


def oom_evidence(before: int | None, after: int | None) -> str | None:
    """The evidence line when the kernel's count of memory kills rose between two readings, else None."""
    if before is None or after is None or after <= before:
        return None
    return f"cgroup: oom_kill rose from {before} to {after}"


def _oom_counter_files() -> list[Path]:
    """cgroup v2 memory.events and v1 memory.oom_control of this process, most specific first.

    Inside a container the path in /proc/self/cgroup may be the host's while the mount shows only our own group, so
    the root of the mount is tried too.
    """
    files = []
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return files
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            files += [_CGROUP_ROOT / path.strip("/") / "memory.events", _CGROUP_ROOT / "memory.events"]
        elif "memory" in controllers.split(","):
            mount = _CGROUP_ROOT / "memory"
            files += [mount / path.strip("/") / "memory.oom_control", mount / "memory.oom_control"]
    return files


def process_start_ns() -> int:
    """When this process started, on the clock of time.monotonic_ns; the kernel says it to its tick (10 ms)."""
    stat = Path("/proc/self/stat").read_bytes()
    started_ticks = int(stat[stat.rindex(b")") + 2 :].split()[19])  # field 22, counted from the boot
    started_ns = started_ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    asleep_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()  # the boot clock counts suspends too
    return started_ns - asleep_ns
