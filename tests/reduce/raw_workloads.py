"""The golden case of view opd_workloads: runs that are exact, that only say so, that are not, and a peer's."""

import json
from pathlib import Path

from fitproof.schema.records import SCHEMA_VERSION
from fitproof.schema.settings import Settings
from raw_cases import MS, START_NS, Panel, Stage, settings, used

DIGESTS = {step: str(step) * 64 for step in (1, 2, 3, 4)}
# ms of rollout, teacher scoring and update in each cycle; the medians of 2 to 4 are 50, 10 and 40
_PHASES = {1: (100, 40, 60), 2: (40, 8, 30), 3: (60, 12, 50), 4: (50, 10, 40)}


def opd_settings() -> Settings:
    return settings(
        algorithm="opd", teacher_id="Qwen/Qwen3-1.7B", workload="custom", train_batch_size=4, rollout_n=1,
        max_num_seqs=4, max_prompt_length=128, max_response_length=64, deterministic=True, total_training_steps=4,
        checkpoint_every=2,
        quantization="nf4", lora_targets="attention",
    )  # fmt: skip


def cycles(steps: range, digests: dict[int, str]) -> list[Stage]:
    """Initializing from 100 to 300, a rest of 10 after each stage, a checkpoint of 20 after every second cycle."""
    stages = [Stage(name="initializing", step=0, begin=100, end=300, peak_reserved=2_000)]
    now = 310
    for step in steps:
        names = zip(("rollout", "teacher_scoring", "actor_update"), _PHASES[step], strict=True)
        for name, length in names:
            tokens = 256 if name == "rollout" else 768
            facts = (("rollout_sha256", digests[step]),) if name == "rollout" and step in digests else ()
            if name == "teacher_scoring" and step == 1:
                facts = (("teacher_cache_bytes", 98_304),)
            stages.append(Stage(name=name, step=step, begin=now, end=now + length, peak_reserved=9_000, tokens=tokens,
                                fact_at=now + length, facts=facts))  # fmt: skip
            now += length + 10
        if step % 2 == 0:
            stages.append(Stage(name="checkpoint", step=step, begin=now, end=now + 20, peak_reserved=3_000,
                                fact_at=now + 20, facts=(("checkpoint_bytes", 5_000 + step),)))  # fmt: skip
            now += 30
    return stages


def run(root: Path, name: str, resumed: dict[int, str], *, minute: int, **checks: object) -> None:
    """Uninterrupted, interrupted after step 2 and resumed; `resumed` are the rollouts that the resumed attempt says."""
    began = {"process_began_ns": START_NS - 50 * MS}
    slots = [(opd_settings(), 0)]
    whole = Panel(root=root, slots=slots, name="opd_qwen3", campaign=name, allocation=f"{name}1", minute=minute)
    cut = Panel(
        root=root, slots=slots, name="opd_qwen3_resumed", campaign=name, allocation=f"{name}2", minute=minute + 1
    )
    whole.attempt(0, cycles(range(1, 5), DIGESTS), used(9_500, process=False)[:6], facts=began)
    held = cycles(range(1, 3), DIGESTS)
    cut.attempt(0, held, used(9_500, process=False)[:6], facts=began, status=None)
    facts = {**began, "resumed_from_step": 2, "resume_load_ns": 3 * MS}
    cut.attempt(0, cycles(range(3, 5), resumed), used(9_500, process=False)[:6], number=2, facts=facts)
    own = {
        "campaign": name, "panel": whole.name, "slot_id": whole.slot_id(0), "attempt": 1, "resumed_panel": cut.name,
        "resumed_slot_id": cut.slot_id(0), "interrupted_attempt": 1, "resumed_attempt": 2,
    }  # fmt: skip
    record = workload(engine="fitproof", run=name, created_at=whole.at(50), attempts=own, **checks)
    _write(root / whole.name / "workload-fitproof.json", record)


def workload(**given: object) -> dict:
    return {
        "schema_version": SCHEMA_VERSION, "workload": "opd", "pair": "qwen3", "engine": "peer 1.0", "run": "peer",
        "device": "NVIDIA H200", "created_at": "2026-12-01T10:59:00.000000Z", "import_ns": 5_000 * MS,
        "recovery_pair_ns": 40_000 * MS, "adapter_bytes": 9_000, "run_bytes": 70_000, "is_trajectory_equal": True,
        "is_adapter_equal": True, "is_optimizer_equal": True, "is_state_equal": True, "is_adapter_loadable": True,
        "differences": [], "attempts": None, "figures": None, **given,
    }  # fmt: skip


def opd_workloads(case: Path) -> None:
    """Four cycles, the medians over cycles 2 to 4: rollouts of 40, 60, 50 ms, teacher 8, 12, 10, updates 30, 50, 40;
    256 response positions. The process began 50 ms before the first event; built at 300, first rollout done at 410,
    first update at 530. Run `first` is exact. The record of `again` says so too, but its resumed attempt rolled out
    something else at step 4. `lost` says nothing of step 4, and an optimizer tensor differs. A peer's run: 10 s for 256
    tokens, and no import time.
    """
    last = {4: DIGESTS[4], 3: DIGESTS[3]}
    run(case / "2026-12-01_h200_first", "first", last, minute=0)
    run(case / "2026-12-02_h200_again", "again", {**last, 4: "0" * 64}, minute=10)
    run(case / "2026-12-03_h200_lost", "lost", {3: DIGESTS[3]}, minute=20, is_optimizer_equal=False,
        differences=["optimizer: a/exp_avg differs in 1 of 4 bytes"])  # fmt: skip
    figures = {
        "positions": 256, "rollout_ns": 10_000 * MS, "teacher_ns": 300 * MS, "update_ns": 2_000 * MS,
        "cold_start_ns": 9_000 * MS, "first_rollout_ns": 19_000 * MS, "first_update_ns": 22_000 * MS,
        "resume_load_ns": 8_000 * MS, "peak_allocated_bytes": 2_000, "peak_reserved_bytes": 3_000, "downshifts": 0,
        "teacher_cache_bytes": 90_000, "checkpoint_bytes": 27_000,
    }  # fmt: skip
    peer = workload(import_ns=None, recovery_pair_ns=235_000 * MS, is_adapter_loadable=None, figures=figures)
    (case / "2026-12-01_h200_first" / "peers").mkdir()
    _write(case / "2026-12-01_h200_first" / "peers" / "workload-peer-1.0.json", peer)


def _write(path: Path, value: dict) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
