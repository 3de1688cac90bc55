"""The fork server: imports the stack once, then starts one fresh process per trial and guards it to its end.

    python -m fitproof.runner.forkserver [MODULE_TO_PRELOAD ...]

`multiprocessing` has a fork server too. Ours differs where a memory benchmark needs it: the child does not import the
caller's main module again, a preload that fails is an error and not silence, the environment holds no secrets, exit
codes and signals arrive as the kernel gave them, and when the supervisor dies, even by SIGKILL, the trial's whole
session is killed, grandchildren included.

Requests: {"run": attempt_dir, "target": "module:function", "cold": bool, "environment": {name: value}} -> {"pid": n},
later {"pid": n, "wait_status": s}. One trial at a time. A cold trial is a new interpreter (fork and exec) that imports
everything itself.
"""

import gc
import importlib
import json
import os
import select
import signal
import sys
import traceback
import warnings
from pathlib import Path

from . import entry
from .companion import tell
from .processes import kill_session

_PIPE_BYTES = 65536
# What the settings decide is decided by them alone, not by what the caller's shell happens to hold.
_NOT_INHERITED = (
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_HIP_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "CUBLAS_WORKSPACE_CONFIG",
    "CUBLASLT_WORKSPACE_SIZE",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "NVIDIA_TF32_OVERRIDE",
)


def main(*modules: str) -> None:
    for name in _NOT_INHERITED:
        os.environ.pop(name, None)
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # see stack.py
    try:
        for module in modules:
            importlib.import_module(module)
    except Exception as error:
        traceback.print_exc()
        tell({"error": f"{type(error).__name__}: {error}"})
        return
    # Python 3.12 warns of forking beside threads. The only ones here are numerical libraries' idle pools, which have
    # fork handlers of their own.
    warnings.filterwarnings("ignore", message=".*multi-threaded.*fork", category=DeprecationWarning)
    gc.collect()
    gc.freeze()  # collections in the trial leave the shared pages alone
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # without a handler the wake-up descriptor stays silent
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    tell({"ready": True})
    _serve(wake_read, wake_write)


def _serve(wake_read: int, wake_write: int) -> None:
    trial: int | None = None
    pending = b""
    while True:
        ready, _, _ = select.select([0, wake_read], [], [])
        if wake_read in ready:
            os.read(wake_read, _PIPE_BYTES)
        if trial is not None and (status := _ended(trial)) is not None:
            tell({"pid": trial, "wait_status": status})
            trial = None
        if 0 not in ready:
            continue
        chunk = os.read(0, _PIPE_BYTES)
        if not chunk:  # the supervisor is gone
            if trial is not None:
                kill_session(trial)
            return
        pending += chunk
        while b"\n" in pending:
            line, _, pending = pending.partition(b"\n")
            request = json.loads(line)
            trial = _start(request, (wake_read, wake_write))
            tell({"pid": trial})


def _ended(pid: int) -> int | None:
    done, status = os.waitpid(pid, os.WNOHANG)
    return status if done else None


def _start(request: dict, wake: tuple[int, int]) -> int:
    attempt, target, server = Path(request["run"]), request["target"], os.getpid()
    pid = os.fork()
    if pid:
        return pid
    # From here on: the trial. Nothing of the server may stay: not its handlers, not its pipes.
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        for descriptor in wake:
            os.close(descriptor)
        entry.settle(attempt, server)
        os.environ.update(request["environment"])
        if request["cold"]:
            os.environ.pop("PYTORCH_NVML_BASED_CUDA_CHECK", None)
            os.execv(sys.executable, [sys.executable, "-m", "fitproof.runner.entry", str(attempt), target])
        entry.run(attempt, target)
    finally:
        traceback.print_exc()
        os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
