"""Keeps the measuring machine's folders, and so its users' names, out of what a trial prints and archives publish."""

import re
import sys
import traceback
import warnings

# An absolute path up to the last part that still says which code it is: a package, the standard library, fitproof.
_FOLDERS = re.compile(r"(?:/[^/\s\"':]+)*/(?=(?:site-packages|dist-packages|python3\.\d+|fitproof)/)")
_HOMES = re.compile(r"/(?:root|home/[^/\s\"':]+|Users/[^/\s\"':]+)(?=[/\s\"':]|$)")


def hide_folders(text: str) -> str:
    """'/home/ann/env/lib/python3.12/site-packages/torch/x.py' -> 'site-packages/torch/x.py'; other homes become '~'."""
    return _HOMES.sub("~", _FOLDERS.sub("", text))


def print_traceback(error: BaseException) -> None:
    """The traceback of `error` and its causes on stderr."""
    sys.stderr.write(hide_folders("".join(traceback.format_exception(error))))
    sys.stderr.flush()


def hide_folders_in_warnings() -> None:
    """From now on Python warnings of this process name their files without folders."""
    plain = warnings.formatwarning
    warnings.formatwarning = lambda *args, **kwargs: hide_folders(plain(*args, **kwargs))
