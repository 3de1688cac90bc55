"""The `fitproof` command. Data to stdout, everything else to stderr.

Exit codes: 0 done; 1 a check failed; 2 the call was wrong; 3 this environment cannot do it; 130 interrupted.
"""

import sys
from typing import NoReturn

from ..errors import EnvironmentLacks, FitproofError
from .output import harden_streams, say


def main() -> None:
    """Entry point of the installed command: run one verb and exit with its code. Known failures have no traceback."""
    harden_streams()
    from .app import app

    try:
        app()
    except FitproofError as error:
        _end(error)
    except OSError as error:  # a full disk, a folder without the right to write: no fault of the call or the evidence
        subject = " and ".join(str(name) for name in (error.filename, error.filename2) if name) or "this machine"
        hint = "make room, or see who may read and write there"
        _end(EnvironmentLacks(subject, found=error.strerror or str(error), expected="to be read or written", hint=hint))


def _end(error: FitproofError) -> NoReturn:
    say(f"fitproof: {error}")
    sys.exit(error.exit_code)
