"""Predictions that were made before, in the user's cache folder: $XDG_CACHE_HOME/fitproof/predictions.

A key covers everything that decides an answer: settings, the package's code, the GPU profile, and the versions of
torch, transformers and peft. A file holds the digest of its answer: one that was damaged or edited is no answer. Such a
file, or a folder that cannot be written, costs time and no more.
"""

import contextlib
import json
import os
from dataclasses import asdict
from functools import cache
from importlib import metadata
from pathlib import Path

from ..code import code_digest
from ..errors import EnvironmentLacks
from ..schema.canonical import canonical_json, sha256_hex
from ..schema.settings import Settings
from ..simulate.profile import profile_digest
from .answer import Holder, Prediction, StagePrediction

STACK = ("torch", "transformers", "peft")


@cache
def versions() -> dict[str, str]:
    """Installed versions of what a dry run runs on, without importing it. Raises EnvironmentLacks."""
    try:
        return {name: metadata.version(name) for name in STACK}
    except metadata.PackageNotFoundError as error:
        raise EnvironmentLacks("the dry run", found=f"no package {error.name}", expected="torch, transformers and peft",
                               hint="fitproof doctor") from None  # fmt: skip


@cache
def basis(gpu: str) -> dict[str, str]:
    """What besides the settings decides an answer, as digests and versions."""
    return {"code": code_digest(), "profile": profile_digest(gpu), **versions()}


def read(s: Settings, gpu: str) -> Prediction | None:
    """The cached prediction, None where there is none."""
    try:
        digest, _, text = _path(s, gpu).read_bytes().partition(b"\n")
        if digest.decode() != sha256_hex(text):
            return None
        data = json.loads(text)
        return Prediction(**{
            **data,
            "stages": tuple(StagePrediction(**stage) for stage in data["stages"]),
            "bound_by": tuple(Holder(**holder) for holder in data["bound_by"]),
            "interval": {name: tuple(ends) for name, ends in data["interval"].items()},
        })  # fmt: skip
    except (OSError, ValueError, TypeError, KeyError):
        return None


def write(s: Settings, gpu: str, prediction: Prediction) -> None:
    """Keep a prediction, by atomic rename."""
    path = _path(s, gpu)
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(asdict(prediction)).encode()
        partial.write_bytes(sha256_hex(text).encode() + b"\n" + text)
        partial.rename(path)
    except OSError:
        with contextlib.suppress(OSError):
            partial.unlink()


def _path(s: Settings, gpu: str) -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    key = sha256_hex(canonical_json({"settings": s.identity(), "gpu": gpu, **basis(gpu)}))
    return base / "fitproof" / "predictions" / f"{key}.json"
