"""Companion processes of the supervisor (fork server, sampler, ballast): JSON lines over stdin and stdout.

Each runs in a session of its own, so that Ctrl-C in a terminal reaches the supervisor alone, and ends when its stdin
reaches end of file: that happens however the supervisor dies, SIGKILL included.
"""

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable

from .processes import without_secrets


class CompanionLost(Exception):
    """A companion died, did not answer in time, or reported that it cannot do its work."""


class Companion:
    """One running companion: `python -m MODULE ARGUMENTS`, with the supervisor's environment less its secrets."""

    def __init__(self, module: str, *arguments: str, environment: dict[str, str] | None = None):
        self.module = module
        self._pending = b""
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env={**without_secrets(os.environ), **(environment or {})},
        )
        os.set_blocking(self._process.stdout.fileno(), False)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, request: dict) -> None:
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise CompanionLost(f"{self.module} has ended{self._exit_text()}") from None

    def receive(self, timeout_seconds: float) -> dict | None:
        """The next reply, or None after the time-out. Raises CompanionLost at end of file and for an error reply."""
        deadline = time.monotonic() + timeout_seconds
        while b"\n" not in self._pending:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return None
            chunk = self._process.stdout.read()
            if chunk == b"":
                raise CompanionLost(f"{self.module} has ended{self._exit_text()}")
            self._pending += chunk or b""
        line, _, self._pending = self._pending.partition(b"\n")
        reply = json.loads(line)
        if "error" in reply:
            raise CompanionLost(f"{self.module}: {reply['error']}")
        return reply

    def ask(self, request: dict, *, timeout_seconds: float = 60.0) -> dict:
        """Send a request and wait for its reply. Raises CompanionLost, after a time-out too."""
        self.send(request)
        reply = self.receive(timeout_seconds)
        if reply is None:
            raise CompanionLost(f"{self.module} gave no answer to {request} within {timeout_seconds:.0f} s")
        return reply

    def close(self, *, patience_seconds: float = 10.0) -> None:
        """End of file on its stdin, then SIGKILL if it does not go."""
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(patience_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _exit_text(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._process.wait(1.0)
            return f" with exit code {code}" if code >= 0 else f" by signal {-code}"
        return ""


def serve(answer: Callable[[dict], dict | None], *, idle: Callable[[], float | None] = lambda: None) -> None:
    """The companion's side: answer each request line until end of file.

    `idle` runs between requests and returns the seconds until it wants to run again (None: only after a request).
    An exception in either is reported as {"error": ...} and ends the companion: the supervisor decides what follows.
    """
    pending = b""
    try:
        while True:
            wait = idle()
            ready, _, _ = select.select([0], [], [], wait)
            if not ready:
                continue
            chunk = os.read(0, 65536)
            if not chunk:
                return
            pending += chunk
            while b"\n" in pending:
                line, _, pending = pending.partition(b"\n")
                reply = answer(json.loads(line))
                if reply is not None:
                    tell(reply)
    except Exception as error:
        tell({"error": f"{type(error).__name__}: {error}"})


def tell(reply: dict) -> None:
    """Write one reply line with one system call; a supervisor that is gone is not an error."""
    with contextlib.suppress(BrokenPipeError):
        os.write(1, (json.dumps(reply) + "\n").encode())
