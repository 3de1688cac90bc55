"""Child processes of the bench: one measurement each, one JSON object on the last line of stdout, within a limit."""

import importlib.util
import json
import os
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Skipped(Exception):
    """A measurement that was not made, and why; the reason says what to type where something is missing."""


class Clock:
    """What is left of a section's time. A child that exceeds it is killed and the measurement is skipped."""

    def __init__(self, limit_seconds: float):
        self._end = time.monotonic() + limit_seconds

    @property
    def left(self) -> float:
        return max(1.0, self._end - time.monotonic())


def offline() -> dict[str, str]:
    """The environment with every look-up at the Hub off: peers get all they need from local folders."""
    return {**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}


def run_module(module: str, *arguments: object, clock: Clock, log: Path) -> dict:
    """`python -m MODULE ARGUMENTS`; its JSON. stderr and the rest of stdout go to `log`. Raises Skipped."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    with log.open("ab") as errors:
        try:
            done = subprocess.run(
                command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, timeout=clock.left, env=offline()
            )
        except subprocess.TimeoutExpired:
            raise Skipped(f"{module} exceeded the section's time limit") from None
        errors.write(done.stdout)
    if done.returncode != 0:
        tail = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-3:]
        raise Skipped(f"{module} ended with exit code {done.returncode}: {' | '.join(tail)}")
    return json.loads(done.stdout.decode().strip().splitlines()[-1])


def run_verb(*arguments: object, clock: Clock, log: Path) -> dict:
    """`fitproof VERB ... --json`; its JSON document, also of a check that failed (exit code 1). Raises Skipped."""
    command = [sys.executable, "-m", "fitproof", *map(str, arguments), "--json"]
    with log.open("ab") as errors:
        try:
            done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, timeout=clock.left)
        except subprocess.TimeoutExpired:
            raise Skipped(f"fitproof {arguments[0]} exceeded the section's time limit") from None
    if done.returncode not in (0, 1) or not done.stdout.strip():
        tail = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-5:]
        raise Skipped(f"fitproof {arguments[0]} ended with exit code {done.returncode}: {' | '.join(tail)}")
    return json.loads(done.stdout)


def need(package: str, version: str, *beside: str) -> str:
    """'package version' where it is installed. Raises Skipped with the command that installs it, and `beside`."""
    missing = [name for name in (package, *beside) if importlib.util.find_spec(name) is None]
    if missing:
        raise Skipped(f"no {', '.join(missing)}: pip install {package}=={version} {' '.join(beside)}".rstrip())
    found = metadata.version(package)
    if found != version:
        raise Skipped(f"{package} {found} is installed: pip install {package}=={version}")
    return f"{package} {found}"
