"""The one door to bitsandbytes, which quantises weights (nf4) and optimizer state (8-bit Adam).

Importing it asks for the device's properties and so starts CUDA, which the fork server must not do, and takes time that
other trials need not spend: the first setting that needs it imports it, by `library`. peft looks for it by itself, when
peft is imported and whenever it attaches an adapter; `hidden` lets it find nothing.
"""

import contextlib
import logging
import sys
from collections.abc import Iterator
from types import ModuleType

import torch

from ..errors import EnvironmentLacks

NAME = "bitsandbytes"


def library(setting: str) -> ModuleType:
    """bitsandbytes, imported at the first call. Raises EnvironmentLacks, naming `setting`, where it is missing."""
    log, compiler = logging.getLogger(f"{NAME}.backends.cpu.ops"), torch.compile
    level = log.level
    # On some CPUs its import fetches a kernel from the Hub, or warns that it cannot: for a layout of packed weights
    # that the program does not use (quantized.py). And it prepares kernels for devices that have none of their own to
    # be compiled, which loads a compiler for over a second; where that fails it takes them as they are.
    log.setLevel(logging.ERROR)
    torch.compile = _no_compiler
    try:
        with _blocked("kernels"):
            import bitsandbytes
    except ImportError as error:
        raise EnvironmentLacks(
            setting, found=f"{NAME} cannot be imported: {error}", expected=f"{NAME} >= 0.50.2",
            hint="pip install -e '.[nf4]'",
        ) from None  # fmt: skip
    finally:
        torch.compile = compiler
        log.setLevel(level)
    return bitsandbytes


def _no_compiler(*_: object, **__: object) -> object:
    raise RuntimeError("no compiler while bitsandbytes is imported")


@contextlib.contextmanager
def hidden() -> Iterator[None]:
    """bitsandbytes as if it were not installed, unless it was imported before."""
    if NAME in sys.modules:
        yield
        return
    try:
        with _blocked(NAME):
            yield
    finally:
        # peft remembers what it did not find.
        found = sys.modules.get("peft.import_utils")
        for name in ("is_bnb_available", "is_bnb_4bit_available"):
            if found is not None:
                getattr(found, name).cache_clear()


@contextlib.contextmanager
def _blocked(name: str) -> Iterator[None]:
    """`import name` fails and a search for it finds nothing."""
    before = sys.modules.get(name)
    sys.modules[name] = None
    try:
        yield
    finally:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before


with hidden():
    import peft  # noqa: F401  before anyone imports it without this
