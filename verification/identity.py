"""Ids recomputed from what they are said to be: SHA-256 over canonical JSON (RFC 8785), first 16 hex digits."""

import hashlib
import json

NOT_IN_SETTINGS_ID = ("capacity_mib", "capacity_source", "total_training_steps", "gpu_count")
Stack = tuple[str, str, str, str]
"""device, device_kind, torch and transformers (major.minor)"""


def short_id(value: dict) -> str:
    """Keys and values here are ASCII text, integers, booleans and null, for which sorted compact JSON is canonical."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def settings_id(settings: dict) -> str:
    return short_id({k: v for k, v in settings.items() if k not in NOT_IN_SETTINGS_ID})


def configuration_id(settings: dict, stack: Stack) -> str:
    device, _, torch, transformers = stack
    rest = {k: settings[k] for k in NOT_IN_SETTINGS_ID}
    return short_id({"settings_id": settings_id(settings), **rest, "device": device, "torch": torch,
                     "transformers": transformers})  # fmt: skip


def stack_of(trial: dict) -> Stack:
    def major_minor(version: str) -> str:
        return ".".join(version.split("+")[0].split(".")[:2])

    return trial["device"], trial["device_kind"], major_minor(trial["torch"]), major_minor(trial["transformers"])
