"""The first lines of a trial's process, forked or cold: its own session, its end tied to its parent's, its output in
files. Then the trial itself: `fitproof.runner.child.main(attempt_dir) -> exit code`.

    python -m fitproof.runner.entry ATTEMPT_DIR TARGET
"""

import importlib
import os
import sys
from pathlib import Path

from .paths import hide_folders_in_warnings, print_traceback
from .processes import die_with_parent

CHILD = "fitproof.runner.child:main"


def settle(attempt: Path, parent: int) -> None:
    """Make the current process a trial's: session leader, killed with `parent`, stdin empty, output in the attempt."""
    os.setsid()
    die_with_parent(parent)
    for descriptor, name, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, attempt / "stdout.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND),
        (2, attempt / "stderr.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND),
    ):
        opened = os.open(name, flags, 0o644)
        os.dup2(opened, descriptor)
        os.close(opened)


def run(attempt: Path, target: str) -> None:
    """Run the trial and end the process with its exit code; 1 with a traceback where it raised. Never returns."""
    hide_folders_in_warnings()
    try:
        module, _, function = target.partition(":")
        code = getattr(importlib.import_module(module), function)(attempt)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException as error:
        print_traceback(error)
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    # Straight out: exit handlers here belong to the fork server, and waiting for device teardown would cost time.
    os._exit(code)


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2])
