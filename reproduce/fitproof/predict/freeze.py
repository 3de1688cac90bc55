"""Frozen predictions: predictions.jsonl, written once, before the trials. A plan that names its SHA-256 proves that.

settings of a panel -> predictions.jsonl -> plan.json, which names the digest -> trials, which name the plan
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from .. import __version__
from ..errors import UsageError
from ..runner.files import utc_now, write_bytes
from ..schema.canonical import sha256_hex, short_id
from ..schema.records import PREDICTIONS, SCHEMA_VERSION
from ..schema.settings import Settings
from . import cache
from .answer import Prediction
from .batch import Refusal
from .cases import Case

METHOD = "dry_run"
_OUTPUTS = ("capacity_bytes", "completes", "label", "failure_stage", "failure", "peak_allocated_bytes",
            "peak_reserved_bytes", "peak_device_used_bytes", "peak_stage", "smallest_capacity_bytes",
            "smallest_without_retries_bytes", "alloc_retries")  # fmt: skip
_OF_STAGE = ("stage", "peak_allocated_bytes", "peak_reserved_bytes", "peak_device_used_bytes", "is_complete")


def method_version(gpu: str) -> str:
    """Package version and 8 digits over all that decides an answer: code, GPU profile, torch, transformers, peft."""
    return f"{__version__}+{short_id(cache.basis(gpu))[:8]}"


def freeze(
    cases: Sequence[Case], answers: Mapping[Settings, Prediction | Refusal], folder: Path, gpu: str
) -> tuple[Path, str]:
    """Write folder/predictions.jsonl and return it with its SHA-256, the digest that a plan names.

    Raises UsageError where there is nothing to write, and where the folder has frozen predictions already.
    """
    if not cases:
        raise UsageError("frozen predictions", found="no configuration", expected="at least one")
    frozen_at = utc_now()
    lines = [json.dumps(record(case, answers[case.settings], gpu, frozen_at), ensure_ascii=False) for case in cases]
    data = "".join(line + "\n" for line in lines).encode()
    path = folder / PREDICTIONS
    refuse_present(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_bytes(path, data)
    return path, sha256_hex(data)


def refuse_present(folder: Path) -> None:
    """Raise UsageError where `folder` has frozen predictions: they are evidence, written once."""
    if (folder / PREDICTIONS).exists():
        raise UsageError(f"{folder / PREDICTIONS}", found="frozen predictions", expected="a folder without any",
                         hint="choose another folder")  # fmt: skip


def record(case: Case, answer: Prediction | Refusal, gpu: str, frozen_at: str) -> dict:
    """One line of predictions.jsonl (records.PREDICTION)."""
    basis, on, is_answer = cache.basis(gpu), case.machine, isinstance(answer, Prediction)
    return {
        "schema_version": SCHEMA_VERSION,
        "method": METHOD,
        "method_version": method_version(gpu),
        "frozen_at": frozen_at,
        "configuration_id": case.configuration_id,
        "settings_id": case.settings.settings_id,
        "settings": case.settings.identity(),
        "device": on.device,
        "torch": on.torch,
        "transformers": on.transformers,
        "own_torch": basis["torch"],
        "own_transformers": basis["transformers"],
        "own_peft": basis["peft"],
        "code_digest": basis["code"],
        "gpu_profile": gpu,
        "gpu_profile_digest": basis["profile"],
        "fitted_families": [],
        "refusal": None if is_answer else answer,
        **{name: getattr(answer, name) if is_answer else None for name in _OUTPUTS},
        "stages": [{n: getattr(stage, n) for n in _OF_STAGE} for stage in answer.stages] if is_answer else [],
        "interval": {name: list(ends) for name, ends in answer.interval.items()} if is_answer else {},
    }
