"""Starting trials, one fresh process each, and making sure that each one ends with everything it started."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import EnvironmentLacks
from .companion import Companion, CompanionLost
from .entry import CHILD
from .processes import kill_session

START_METHODS = ("forkserver", "spawn")
_IMPORT_SECONDS = 300.0  # a cold disk
_POLL_SECONDS = 0.1
_KILL_SECONDS = 60.0  # a driver may take long to tear down a large context


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """How a trial's process ended. `leftovers`: processes of its session that even SIGKILL had not ended in time."""

    exit_code: int | None
    signal: int | None
    timed_out: bool
    interrupted: bool
    wall_ns: int
    leftovers: tuple[int, ...]


class Spawner:
    """Starts trials by `start_method`: forked from a server that has the stack, or as cold interpreters."""

    def __init__(
        self,
        start_method: str = "forkserver",
        *,
        target: str = CHILD,
        preload: tuple[str, ...] | None = None,
        environment: dict[str, str] | None = None,
    ):
        self.start_method, self._target, self._environment = start_method, target, environment
        if preload is None:
            preload = ("fitproof.runner.stack", target.partition(":")[0])
        self._preload = preload if start_method == "forkserver" else ()
        self._server: Companion | None = None

    def start_server(self) -> None:
        """Start the server if none runs. Raises EnvironmentLacks when the stack cannot be imported."""
        if self._server is not None:
            return
        server = Companion("fitproof.runner.forkserver", *self._preload, environment=self._environment)
        try:
            if server.receive(_IMPORT_SECONDS) is None:
                raise CompanionLost(f"the fork server was not ready within {_IMPORT_SECONDS:.0f} s")
        except CompanionLost as error:
            server.close(patience_seconds=0.0)
            raise EnvironmentLacks(
                "model stack",
                found=str(error),
                expected="torch, transformers and peft to import",
                hint="pip install -e '.[gpu]'  # then: fitproof doctor",
            ) from None
        self._server = server

    def run(
        self,
        attempt: Path,
        *,
        time_limit_seconds: float,
        on_start: Callable[[int], None],
        stop: Callable[[], bool],
        target: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Ended:
        """Run one trial to its end. `on_start` gets its pid; `stop` is asked about ten times a second.

        `target` None: the spawner's. `environment`: variables of this process alone.

        Kills the trial's whole session at the time limit and on `stop`, and whatever is left of it after a normal
        end. Raises CompanionLost when the fork server dies: then the session is killed too, and the next trial gets a
        new server.
        """
        self.start_server()
        begun = time.monotonic_ns()
        pid = None
        try:
            request = {
                "run": str(attempt.resolve()),
                "target": target or self._target,
                "cold": self.start_method == "spawn",
                "environment": dict(environment or {}),
            }
            pid = self._server.ask(request)["pid"]
            on_start(pid)
            status, timed_out, interrupted = self._wait(pid, begun + int(time_limit_seconds * 1e9), stop)
        except BaseException:
            self.close()
            if pid is not None:
                kill_session(pid)
            raise
        wall_ns = time.monotonic_ns() - begun
        code = os.waitstatus_to_exitcode(status)
        return Ended(
            exit_code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            timed_out=timed_out,
            interrupted=interrupted,
            wall_ns=wall_ns,
            leftovers=tuple(kill_session(pid)),
        )

    def _wait(self, pid: int, deadline_ns: int, stop: Callable[[], bool]) -> tuple[int, bool, bool]:
        """(wait status, timed out, interrupted). Raises CompanionLost when even SIGKILL does not end the trial."""
        timed_out = interrupted = False
        last_ns = 0
        while True:
            reply = self._server.receive(_POLL_SECONDS)
            if reply is not None:
                return reply["wait_status"], timed_out, interrupted
            if not (timed_out or interrupted):
                last_ns = time.monotonic_ns() + int(_KILL_SECONDS * 1e9)
                interrupted = stop()
                timed_out = not interrupted and time.monotonic_ns() > deadline_ns
            if timed_out or interrupted:
                kill_session(pid)
                if time.monotonic_ns() > last_ns:
                    raise CompanionLost(f"process {pid} of the trial outlived SIGKILL by {_KILL_SECONDS:.0f} s")

    def close(self) -> None:
        """End the server; a trial still running is killed with it."""
        if self._server is not None:
            self._server.close()
            self._server = None
