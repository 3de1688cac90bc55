"""Lines of predictions.jsonl for tests, and the golden case made of them. Sizes in MiB unless a name says otherwise."""

import json
from pathlib import Path

from fitproof.schema.canonical import sha256_hex
from fitproof.schema.records import SCHEMA_VERSION
from fitproof.schema.settings import Settings
from raw_cases import Panel, Stage, plain, settings, used

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


def predicted(case: Path) -> None:
    """Panel golden names its predictions, panel bisect names none. A fits (peak 9,000 reserved, 9,500 used, 16,372 of
    capacity, L = 14,324), B fails asking for 512 MiB with 100 free and 0 to reclaim, C was never started. The same
    settings as A fail at 9,788 and complete at 9,888 (panel bisect): margin of A (14,324 - 9,500) / 16,372, of B
    412 / 16,372. Version 1 was frozen at 09:00 for A, B and C, and again at 09:20 beside version 2 (1 % more
    reserved for A), so 1 is prospective and 2 is the latest, for all but C. A peer answers for A in part; D is
    refused.
    """
    a, b, c = settings(), settings(actor_micro_batch=4), settings(actor_micro_batch=8)
    d = settings(rollout_engine="hf_paged")
    stages = {"initializing": (1_995, 2_000), "rollout": (5_995, 6_060), "actor_update": (8_995, 9_000)}
    of_a = {"capacity_bytes": 16_384 * MIB, "completes": True, "label": "within_margin", "stages": stages,
            "peak_allocated_bytes": 8_995 * MIB, "peak_reserved_bytes": 9_000 * MIB, "alloc_retries": 0,
            "peak_device_used_bytes": 9_595 * MIB, "peak_stage": "actor_update",
            "smallest_capacity_bytes": 9_840 * MIB, "smallest_without_retries_bytes": 9_840 * MIB}  # fmt: skip
    of_b = {"capacity_bytes": 16_384 * MIB, "completes": False, "label": "memory_failure", "failure_stage": "rollout",
            "failure": "aten::empty asked for 536870912 bytes", "peak_allocated_bytes": 14_000 * MIB,
            "peak_reserved_bytes": 15_000 * MIB, "peak_device_used_bytes": 15_500 * MIB, "peak_stage": "rollout",
            "smallest_capacity_bytes": 17_000 * MIB, "stages": {"initializing": (1_995, 2_000)}}  # fmt: skip
    of_a_later = {**of_a, "peak_reserved_bytes": 9_090 * MIB, "stages": {**stages, "actor_update": (8_995, 9_090)}}
    ends = {"interval": {"peak_reserved_bytes": [9_000 * MIB, 9_010 * MIB]}}
    first = write(
        case / "2026-12-01_h200_golden" / "golden" / "predictions.jsonl", line(a, **of_a, **ends), line(b, **of_b),
        line(c, **of_b), line(d, refusal="rollout_engine=hf_paged: an engine with an allocator of its own"),
        line(a, method="fitcheck-llm", version="0.3", peak_reserved_bytes=9_900 * MIB),
    )  # fmt: skip
    write(
        case / "2026-12-02_h200_predictions" / "later" / "predictions.jsonl", line(a, minute=20, **of_a, **ends),
        line(a, version="2", minute=20, **of_a_later), line(b, version="2", minute=20, **of_b),
    )  # fmt: skip
    slots = [(a, 0), (a, 1), (a, 2), (b, 0), (b, 1), (b, 2), (c, 0)]
    panel = Panel(root=case / "2026-12-01_h200_golden", slots=slots, predictions=sha256_hex(first))
    failing = [*plain(9_000), Stage(name="rollout", step=2, begin=720, end=None, peak_reserved=15_000)]
    for place in range(3):
        panel.attempt(place, plain(9_000), used(9_000))
        panel.attempt(place + 3, failing, used(9_000), status="memory_failure", failure={"ms": 800})
    bisect = Panel(
        root=case / "2026-12-01_h200_golden", name="bisect", minute=30,
        slots=[(settings(capacity_mib=9_800), 0), (settings(capacity_mib=9_900), 0)],
    )  # fmt: skip
    bisect.attempt(0, failing, used(9_000), status="memory_failure", failure={"ms": 800})
    bisect.attempt(1, plain(9_000), used(9_000))
