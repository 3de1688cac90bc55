"""The `fitproof` command. Data to stdout, everything else to stderr.

Exit codes: 0 done; 1 a check failed; 2 the call was wrong; 3 this environment cannot do it; 130 interrupted.
"""

import sys

from ..errors import FitproofError
from .output import harden_streams, say


def main() -> None:
    """Entry point of the installed command: run one verb and exit with its code. Known failures have no traceback."""
    harden_streams()
    from .app import app

    try:
        app()
    except FitproofError as error:
        say(f"fitproof: {error}")
        sys.exit(error.exit_code)
