"""A trial's main function without a model: it writes the events of a two-step trial and ends as its seed says."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

COMPLETES, OUT_OF_MEMORY, HANGS, UNKNOWN, DEVICE_FAULT, LEAVES_GRANDCHILD, KILLED, SLOW, UNFINISHED, HANGS_DEAF = range(
    10
)

_STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
_COUNTS = {"allocated_bytes": 1, "reserved_bytes": 2}
_PEAKS = dict.fromkeys(("peak_allocated_bytes", "peak_reserved_bytes", "requested_bytes", "peak_requested_bytes"), 3)
_FAILURE_NULLS = dict.fromkeys(
    ("allocated_bytes", "reserved_bytes", "peak_allocated_bytes", "peak_reserved_bytes", "alloc_retries", "oom_count",
     "requested_alloc_bytes", "device_free_bytes", "reclaimable_bytes")
)  # fmt: skip


def main(attempt: Path) -> int:
    trial = json.loads((attempt / "trial.json").read_text())
    print(json.dumps({"pid": os.getpid(), "secrets": sorted(n for n in os.environ if "TOKEN" in n)}), flush=True)
    with (attempt / "events.jsonl").open("a") as events:

        def tell(event: str, **fields: object) -> None:
            events.write(json.dumps({"t_ns": time.monotonic_ns(), "event": event, **fields}) + "\n")
            events.flush()

        return _run(trial["seed"], trial["attempt"], tell)


def _run(seed: int, attempt: int, tell) -> int:
    if seed == UNFINISHED:
        return 0
    for step in (1, 2):
        for stage in ("rollout", "actor_update"):
            tell("stage_begin", stage=stage, step=step, **_COUNTS)
            time.sleep(0.25 if seed == SLOW else 0.02)
            if stage == "actor_update" and step == 2:
                code = _end(seed, attempt, tell)
                if code is not None:
                    return code
            tell("stage_end", stage=stage, step=step, **_COUNTS, **_PEAKS, alloc_retries=0, oom_count=0, tokens=8)
    tell("finished", completed_steps=2)
    return 0


def _end(seed: int, attempt: int, tell) -> int | None:
    if seed == OUT_OF_MEMORY:
        message = "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 8.00 GiB"
        tell("failure", stage="actor_update", step=2, exception_types=["torch.OutOfMemoryError"], message=message,
             **_FAILURE_NULLS)  # fmt: skip
        return 10
    if seed in (HANGS, HANGS_DEAF):
        if seed == HANGS_DEAF:
            _grandchild()
        time.sleep(600)
    if seed == UNKNOWN:
        print("no idea what went wrong", file=sys.stderr)
        return 7
    if seed == DEVICE_FAULT and attempt == 1:
        message = "CUDA error: an illegal memory access was encountered"
        tell("failure", stage="actor_update", step=2, exception_types=["torch.AcceleratorError"], message=message,
             **_FAILURE_NULLS)  # fmt: skip
        return 10
    if seed == LEAVES_GRANDCHILD:
        _grandchild()
    if seed == KILLED:
        print("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    return None


def _grandchild() -> None:
    """A process in the trial's session, in a group of its own, that ignores SIGTERM."""
    subprocess.Popen([sys.executable, "-c", _STUBBORN], process_group=0)
    time.sleep(0.3)
