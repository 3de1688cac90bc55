"""The trial's own process: reads trial.json, writes environment.json and events.jsonl, runs the trial program.

The supervisor calls `main` in a fresh process that already has its session and its redirected output.
"""

import gc
import json
import time
from pathlib import Path

import torch

from ..errors import EvidenceError
from ..schema.records import SCHEMA_VERSION, TRIAL, problems
from . import environment
from .files import checkpoint_folder, write_json
from .hold import requested_hold
from .paths import print_traceback
from .plan import settings_from
from .program import trial
from .program.recorder import CpuMeter, CudaMeter, Recorder

FINISHED = 0
FAILED = 10  # a failure was caught and recorded


def main(attempt_dir: Path) -> int:
    """Run the trial of `attempt_dir`. Returns 0 when every step finished, 10 after a recorded failure.

    Raises EvidenceError where trial.json itself is unusable: then there is nothing to record against.
    """
    began_ns = time.monotonic_ns()
    record = read_trial(attempt_dir / "trial.json")
    with (attempt_dir / "events.jsonl").open("a", encoding="utf-8") as stream:
        return _run(record, attempt_dir, stream, began_ns)


def read_trial(path: Path) -> dict:
    """trial.json, checked against the record layout."""
    record = json.loads(path.read_text(encoding="utf-8"))
    found = problems(record, TRIAL, path.name)
    if not found and record["schema_version"] != SCHEMA_VERSION:
        found = [f"schema_version {record['schema_version']}"]
    if found:
        raise EvidenceError(path.name, found="; ".join(found), expected=f"a trial record, schema {SCHEMA_VERSION}")
    return record


def _run(record: dict, attempt_dir: Path, stream, began_ns: int) -> int:
    # ROCm builds of torch call their device "cuda" too.
    device = torch.device("cpu") if record["device_kind"] == "cpu" else torch.device("cuda", 0)
    # Nothing before this line touches the device, and the recorder does not either: an out-of-memory of the context
    # itself is a result, and is recorded like any other.
    settle = 1.5e-9 * (record["sampler_interval_ns"] or 0)  # long enough for one sample, whatever its phase
    recorder = Recorder(stream, CpuMeter() if device.type == "cpu" else CudaMeter(device), settle_seconds=settle)
    recorder.fact("process_began_ns", began_ns)  # what lies before the first stage belongs to a cold start
    has_context = False
    try:
        settings = settings_from(record["settings"])
        environment.configure(settings, device)
        environment.start_device(settings, device)
        has_context = True
        _write_environment(attempt_dir, device, record["device"], has_context=True)
        # What the imports left behind would be walked by every later collection; it lives to the end anyway.
        gc.freeze()
        # What lies there is of an interrupted attempt that is to go on: the supervisor has removed anything else.
        checkpoints = checkpoint_folder(attempt_dir) if settings.checkpoint_every else None
        trial.run(
            settings,
            seed=record["seed"],
            device=device,
            recorder=recorder,
            checkpoints=checkpoints,
            hold_after=requested_hold(),
        )
        return FINISHED
    except Exception as error:
        print_traceback(error)
        recorder.failure(error, device if has_context else None)
        if not (attempt_dir / "environment.json").exists():
            _write_environment(attempt_dir, device, record["device"], has_context=False)
        return FAILED


def _write_environment(attempt_dir: Path, device: torch.device, name: str, *, has_context: bool) -> None:
    write_json(attempt_dir / "environment.json", environment.describe(device, name, has_context=has_context))
