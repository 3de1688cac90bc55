"""What the child finds around it: environment.json, and the allocator and determinism settings that it makes effective.

Nothing that identifies a host, a user or a card: the device's UUID appears only as a salted digest.
"""

import hashlib
import os
import platform
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

import psutil
import torch

from ..errors import CheckFailed
from ..schema.settings import Settings

_DIGEST_SALT = "fitproof-device-v1:"
_ALLOCATOR = {"default": "expandable_segments:False", "expandable_segments": "expandable_segments:True"}


def configure(settings: Settings, device: torch.device) -> None:
    """Make `allocator` and `deterministic` effective. Before the CUDA context exists: both are read when it is made.

    The allocator's settings are set outright, not through the environment: a fork server has imported torch long
    before it knows the trial, and a variable that the user exported must not leak into the measurement.
    """
    if settings.deterministic:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        torch.use_deterministic_algorithms(True)
        # Filling every new tensor with NaN is for finding bugs; it would only cost time here.
        torch.utils.deterministic.fill_uninitialized_memory = False
    if device.type == "cuda":
        torch._C._accelerator_setAllocatorSettings(_ALLOCATOR[settings.allocator])


def start_device(settings: Settings, device: torch.device) -> None:
    """Make the CUDA context and check that the allocator runs as asked. Raises what CUDA raises, or CheckFailed."""
    if device.type != "cuda":
        return
    torch.cuda.init()
    torch.cuda.set_device(device)
    torch.cuda.synchronize(device)
    found = allocator_settings().get("expandable_segments")
    wanted = settings.allocator == "expandable_segments"
    if found is not None and bool(found) != wanted:
        raise CheckFailed("allocator settings", found=f"expandable_segments={found}",
                          expected=f"expandable_segments={wanted}")  # fmt: skip


def allocator_settings() -> dict[str, object]:
    """The caching allocator's own account of its settings. Needs a CUDA context."""
    snapshot = torch.cuda.memory._snapshot()
    return {name: _plain(value) for name, value in snapshot.get("allocator_settings", {}).items()}


def describe(device: torch.device, device_name: str, *, has_context: bool) -> dict[str, object]:
    """environment.json (records.ENVIRONMENT). `device_name` stands in where the device cannot be asked any more."""
    record: dict[str, object] = dict.fromkeys(
        ("device_digest", "driver_version", "compute_capability", "driver_total_bytes", "monitor_total_bytes")
    )
    record["device_name"], record["allocator_settings"] = device_name, {}
    if device.type == "cuda" and has_context:
        properties = torch.cuda.get_device_properties(device)
        record["device_name"] = properties.name
        record["compute_capability"] = f"{properties.major}.{properties.minor}"
        record["driver_total_bytes"] = _ask(lambda: torch.cuda.mem_get_info(device)[1])
        record["allocator_settings"] = _ask(allocator_settings) or {}
        uuid = str(getattr(properties, "uuid", "")) or None
        if uuid:
            record["device_digest"] = hashlib.sha256((_DIGEST_SALT + uuid).encode()).hexdigest()[:16]
            if torch.version.hip is None:
                record.update(_ask(lambda: _nvml(uuid)) or {})
    record.update(
        torch=torch.__version__, cuda=torch.version.cuda, cudnn=_text(_ask(torch.backends.cudnn.version)),
        transformers=installed("transformers"), peft=installed("peft"), bitsandbytes=installed("bitsandbytes"),
        python=platform.python_version(), os=f"{platform.system()} {platform.release()} {platform.machine()}",
        host_memory_bytes=psutil.virtual_memory().total, host_cores=os.cpu_count() or 1,
    )  # fmt: skip
    return record


def installed(package: str) -> str | None:
    """Version of an installed package, without importing it."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _nvml(uuid: str) -> dict[str, object]:
    import pynvml

    pynvml.nvmlInit()
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}")
        return {
            "driver_version": _text(pynvml.nvmlSystemGetDriverVersion()),
            "monitor_total_bytes": int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
        }
    finally:
        pynvml.nvmlShutdown()


def _ask(query: Callable[[], object]) -> object:
    try:
        return query()
    except Exception as error:
        print(f"environment: {error}", file=sys.stderr)
        return None


def _text(value: object) -> str | None:
    if value is None:
        return None
    return value.decode() if isinstance(value, bytes) else str(value)


def _plain(value: object) -> object:
    """A JSON value: numbers, strings, booleans and nested dicts and lists as they are, anything else as text."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
