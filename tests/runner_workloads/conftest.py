"""One tiny workload, run by the command in a process of its own, for all tests of this room."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Ran:
    """`out`: its run directory. `answer`: what it printed as JSON."""

    out: Path
    answer: dict


@pytest.fixture(scope="session")
def ran(tmp_path_factory) -> Ran:
    """Do not change what it left: copy it."""
    out = tmp_path_factory.mktemp("workload") / "runs"
    command = [sys.executable, "-m", "fitproof", "workload", "opd", "--pair", "tiny", "--out", str(out), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return Ran(out, json.loads(done.stdout))
