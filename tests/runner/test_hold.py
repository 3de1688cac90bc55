"""A rehearsed interruption, and the moment a process began."""

import json
import os
import subprocess
import sys
import time

from fitproof.runner.hold import FACT, hold_request, is_held, requested_hold
from fitproof.runner.processes import process_start_ns


def test_a_request_travels_in_the_environment(monkeypatch):
    assert hold_request(None) == {}
    assert requested_hold() is None
    for name, value in hold_request(4).items():
        monkeypatch.setenv(name, value)
    assert requested_hold() == 4


def test_a_trial_is_held_once_it_says_so(tmp_path):
    assert not is_held(tmp_path)
    events = tmp_path / "events.jsonl"
    events.write_text('{"t_ns":1,"event":"fact","name":"parameters","value":4}\n')
    assert not is_held(tmp_path)
    line = {"t_ns": 2, "event": "fact", "name": FACT, "value": 4}
    events.write_text(events.read_text() + json.dumps(line, separators=(",", ":")) + "\n")
    assert is_held(tmp_path)


def test_a_process_knows_when_it_began():
    before = time.monotonic_ns()
    code = "from fitproof.runner.processes import process_start_ns as s; import time; print(s(), time.monotonic_ns())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    began, asked = map(int, done.stdout.split())
    tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    assert before - tick_ns <= began <= asked
    assert process_start_ns() < before
