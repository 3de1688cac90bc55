"""Lines of predictions.jsonl for tests. Sizes in MiB unless a name says otherwise."""

import json
from pathlib import Path

from fitproof.schema.records import SCHEMA_VERSION
from fitproof.schema.settings import Settings

MIB = 1 << 20
MACHINE = {"device": "NVIDIA H200", "torch": "2.13", "transformers": "5.17"}
OUTPUTS = ("capacity_bytes", "completes", "label", "failure_stage", "failure", "peak_allocated_bytes",
           "peak_reserved_bytes", "peak_device_used_bytes", "peak_stage", "smallest_capacity_bytes",
           "smallest_without_retries_bytes", "alloc_retries")  # fmt: skip


def line(
    s: Settings,
    *,
    method: str = "dry_run",
    version: str = "1",
    minute: int = 0,
    refusal: str | None = None,
    stages: dict[str, tuple[int, int]] | None = None,
    machine: dict[str, str] = MACHINE,
    **outputs: object,
) -> dict:
    """One prediction, frozen at 09:<minute>. `stages`: allocated and reserved MiB; `outputs`: bytes, default null."""
    return {
        "schema_version": SCHEMA_VERSION, "method": method, "method_version": version,
        "frozen_at": f"2026-12-01T09:{minute:02d}:00.000000Z", "configuration_id": s.configuration_id(**machine),
        "settings_id": s.settings_id, "settings": s.identity(), **machine, "own_torch": "2.13.0+cpu",
        "own_transformers": "5.17.0", "own_peft": "0.21.0", "code_digest": "d" * 64, "gpu_profile": "h200",
        "gpu_profile_digest": "e" * 64, "fitted_families": [], "refusal": refusal, **dict.fromkeys(OUTPUTS),
        "stages": [{"stage": name, "peak_allocated_bytes": allocated * MIB, "peak_reserved_bytes": reserved * MIB,
                    "peak_device_used_bytes": (reserved + 500) * MIB, "is_complete": True}
                   for name, (allocated, reserved) in (stages or {}).items()],
        "interval": {}, **outputs,
    }  # fmt: skip


def write(path: Path, *lines: dict) -> bytes:
    data = "".join(json.dumps(one) + "\n" for one in lines).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return data
