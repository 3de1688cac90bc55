"""Run directories in the raw schema, made by a seeded generator: no GPU, no measurement, the same bytes every time.

    .venv/bin/python -m benchmarks.synthetic scratch/synthetic --attempts 90 --samples 600 --seed 0

The numbers are invented but consistent, as a real run's are: samples follow the stages, a failed trial stops where its
allocation failed, process used is reserved plus an overhead that grows. One slot of every panel needs a replacement,
one was interrupted and done again, and the last two were never started. Nothing made here may enter releases/.
"""

import argparse
import hashlib
import json
import random
from dataclasses import dataclass
from pathlib import Path

from fitproof.schema.canonical import canonical_json, sha256_hex, short_id
from fitproof.schema.records import MEMORY_CSV_HEADER, SCHEMA_VERSION
from fitproof.schema.settings import Settings, resolve

MIB, GIB = 1 << 20, 1 << 30
DEVICE = "Synthetic GPU"
CAPACITY_MIB = 16_384
EFFECTIVE = CAPACITY_MIB * MIB - 12 * MIB
BASELINE_USED = 127 * GIB
INTERVAL_NS = 10_000_000
STACK = {"torch": "2.13.0", "transformers": "5.17.0"}
CODE_DIGEST = hashlib.sha256(b"synthetic").hexdigest()
MODELS = ("Qwen/Qwen3-0.6B", "HuggingFaceTB/SmolLM2-360M-Instruct", "Qwen/Qwen2.5-1.5B-Instruct")
# Share of the trial's time and of its peak memory, stage by stage, in the order of one step.
STAGES = (("rollout", 0.40, 0.80), ("rollout_logprob", 0.12, 0.70), ("reference_logprob", 0.12, 0.70),
          ("reward", 0.02, 0.35), ("actor_update", 0.34, 1.00))  # fmt: skip
STEPS = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """One attempt to write: its slot, its number, how it ends, its demand (peak reserved bytes)."""

    panel: str
    slot_id: str
    seed: int
    settings: Settings
    number: int
    status: str
    demand_bytes: int
    has_process_used: bool
    samples: int
    start_ns: int
    clock_seconds: int
    """Seconds after 2026-01-01T00:00:00Z at which the attempt starts."""

    @property
    def duration_ns(self) -> int:
        return self.samples * INTERVAL_NS


def panel_settings(panel_index: int, count: int) -> list[Settings]:
    """`count` different configurations. Panels differ in two settings, so that none is a matched pair of another's."""
    made = []
    for i in range(count):
        made.append(
            resolve(
                model_id=MODELS[i % len(MODELS)],
                workload="short",
                actor_micro_batch=1 << (i // len(MODELS) % 5),
                lora_rank=8 << (i // (len(MODELS) * 5) % 4),
                gradient_checkpointing=i // (len(MODELS) * 20) % 2 == 0,
                logits_chunk=64 * panel_index,
                max_num_seqs=16 + panel_index,
                capacity_mib=CAPACITY_MIB,
            )
        )
    return made


def plan_attempts(
    panel_index: int, *, attempts: int, samples: int, seed: int, predictions_digest: str | None = None
) -> tuple[dict, list[Attempt]]:
    """The frozen plan and the attempts of one panel. `attempts` slots in groups of three seeds, two of them replaced.

    attempts is a multiple of 3 and at least 6.
    """
    if attempts < 6 or attempts % 3:
        raise ValueError(f"attempts={attempts}: a multiple of 3, at least 6")
    panel = f"synthetic-{panel_index:03d}"
    rng = random.Random(f"{seed}/{panel}")
    slots, started = [], []
    configurations = panel_settings(panel_index, attempts // 3)
    for i, settings in enumerate(configurations):
        demand = int(GIB * (5 + 17 * i / max(1, len(configurations) - 1)))
        for trial_seed in range(3):
            identity = settings.identity()
            slot = {"slot_id": short_id({"panel": panel, "settings": identity, "seed": trial_seed}),
                    "seed": trial_seed, "settings": identity, "estimate_seconds": samples // 100}  # fmt: skip
            slots.append(slot)
            started.append((slot, settings, demand + 2 * MIB * rng.randrange(8), rng.random() > 0.1))
    made: list[Attempt] = []
    for n, (slot, settings, demand, has_process) in enumerate(started[:-2]):
        overhead = _overhead(STEPS * len(STAGES))
        outcome = "completed" if demand + overhead <= EFFECTIVE else "memory_failure"
        for number, status in enumerate(
            {0: ("ineligible", outcome), 1: ("interrupted", outcome)}.get(n, (outcome,)), 1
        ):
            done = len(made)
            made.append(
                Attempt(
                    panel=panel, slot_id=slot["slot_id"], seed=slot["seed"], settings=settings, number=number,
                    status=status, demand_bytes=demand, has_process_used=has_process, samples=samples,
                    start_ns=(panel_index + 1) * 10**15 + done * (samples + 50) * INTERVAL_NS,
                    clock_seconds=panel_index * 86_400 + done * (samples // 100 + 1),
                )
            )  # fmt: skip
    plan = {"schema_version": SCHEMA_VERSION, "panel": panel, "reason": "made for the benchmarks",
            "device_kind": "cuda", "code_digest": CODE_DIGEST, "predictions_digest": predictions_digest,
            "slots": slots}  # fmt: skip
    return {**plan, "digest": sha256_hex(canonical_json(plan))}, made


def write_panel(
    root: Path,
    panel_index: int = 0,
    *,
    attempts: int = 90,
    samples: int = 600,
    seed: int = 0,
    predictions_digest: str | None = None,
) -> Path:
    """Write one panel below `root` and return its folder."""
    plan, made = plan_attempts(
        panel_index, attempts=attempts, samples=samples, seed=seed, predictions_digest=predictions_digest
    )
    folder = root / plan["panel"]
    folder.mkdir(parents=True)
    _write_json(folder / "plan.json", plan)
    ledger = []
    for attempt in made:
        result = _write_attempt(folder / attempt.slot_id / f"attempt-{attempt.number}", attempt, plan["digest"])
        common = {"slot_id": attempt.slot_id, "attempt": attempt.number, "allocation_id": _allocation(attempt),
                  "campaign": "first"}  # fmt: skip
        ledger.append(
            {"event": "start", **common, "at": _utc(attempt.clock_seconds), "status": None, "failure_class": None}
        )
        if result:
            ledger.append({"event": "end", **common, "at": result["ended_at"], "status": result["status"],
                           "failure_class": result["failure_class"]})  # fmt: skip
    (folder / "ledger.jsonl").write_text(_lines(ledger), encoding="utf-8")
    return folder


def _write_attempt(folder: Path, a: Attempt, plan_digest: str) -> dict | None:
    folder.mkdir(parents=True)
    rng = random.Random(f"{a.slot_id}/{a.number}")
    configuration_id = a.settings.configuration_id(device=DEVICE, **STACK)
    _write_json(folder / "trial.json", {
        "schema_version": SCHEMA_VERSION, "execution": "measured", "panel": a.panel, "slot_id": a.slot_id,
        "attempt": a.number, "seed": a.seed, "settings": a.settings.identity(), "settings_id": a.settings.settings_id,
        "configuration_id": configuration_id, "device": DEVICE, "device_kind": "cuda", **STACK,
        "capacity_mib": CAPACITY_MIB, "capacity_source": "emulated", "effective_capacity_bytes": EFFECTIVE,
        "monitor_free_bytes": EFFECTIVE, "baseline_used_bytes": BASELINE_USED,
        "ballast_bytes": BASELINE_USED - 600 * MIB,
        "weights": "random", "revision": None, "start_method": "forkserver", "sampler_interval_ns": INTERVAL_NS,
        "time_limit_seconds": 540, "created_at": _utc(a.clock_seconds), "plan_digest": plan_digest,
        "code_digest": CODE_DIGEST, "campaign": "first", "allocation_id": _allocation(a),
    })  # fmt: skip
    _write_json(folder / "environment.json", {
        "device_name": DEVICE, "device_digest": "0" * 16, "driver_version": "0.0", "compute_capability": "9.0",
        "driver_total_bytes": 140 * GIB, "monitor_total_bytes": 140 * GIB + 615 * MIB, **STACK, "cuda": "13.0",
        "cudnn": "9.0", "peft": "0.21.0", "bitsandbytes": None, "allocator_settings": {}, "python": "3.11.0",
        "os": "Linux", "host_memory_bytes": 128 * GIB, "host_cores": 16,
    })  # fmt: skip
    events, levels, end_ns = _events(a)
    (folder / "events.jsonl").write_text(_lines(events), encoding="utf-8")
    last_ns = _write_samples(folder / "memory.csv", a, levels, rng)
    (folder / "stdout.log").write_text(f"{len(events)} events\n", encoding="utf-8")
    failure = next((e for e in events if e["event"] == "failure"), None)
    (folder / "stderr.log").write_text(f"{failure['message']}\n" if failure else "", encoding="utf-8")
    if a.status == "interrupted":
        return None
    completed = next((e["completed_steps"] for e in events if e["event"] == "finished"), 0)
    memory = a.status == "memory_failure"
    result = {
        "status": a.status, "exit_code": 0 if a.status == "completed" else None if a.status == "ineligible" else 1,
        "signal": 9 if a.status == "ineligible" else None,
        "failure_class": {"completed": None, "memory_failure": "device_memory", "ineligible": "host_memory"}[a.status],
        "failure_stage": failure["stage"] if memory else None, "evidence": failure["message"] if memory else None,
        "reason": "the host ran out of memory" if a.status == "ineligible" else None, "completed_steps": completed,
        "wall_ns": end_ns - a.start_ns + 400_000_000, "device_ns": last_ns - a.start_ns + 900_000_000,
        "samples": a.samples, "median_interval_ns": INTERVAL_NS, "max_interval_ns": INTERVAL_NS + 90_000,
        "ended_at": _utc(a.clock_seconds + a.duration_ns // 10**9),
    }  # fmt: skip
    _write_json(folder / "result.json", result)
    return result


def _events(a: Attempt) -> tuple[list[dict], list[tuple[int, int, int]], int]:
    """The events; (from ns, reserved bytes, overhead bytes) for the samples, in order of time; the last moment."""
    now = a.start_ns + 20_000_000
    events: list[dict] = [{"t_ns": now, "event": "fact", "name": "trainable_parameters", "value": 4_587_520}]
    levels: list[tuple[int, int, int]] = []
    held = int(a.demand_bytes * 0.2) // MIB * MIB
    plan = [("initializing", 0, 0.10, 0.25)]
    plan += [(stage, step, 0.85 / STEPS * time, size) for step in range(1, STEPS + 1) for stage, time, size in STAGES]
    rest = min(INTERVAL_NS * 3 // 2, a.duration_ns // 30)  # after each stage, long enough for one sample
    working_ns = a.duration_ns - len(plan) * rest
    for n, (stage, step, time_share, size_share) in enumerate(plan):
        peak = max(held, int(a.demand_bytes * size_share * (1 if step != 1 else 0.97)) // (2 * MIB) * (2 * MIB))
        end = now + int(working_ns * time_share)
        overhead = _overhead(n)
        where = {"stage": stage, "step": step}
        before = {"allocated_bytes": held - MIB * 3, "reserved_bytes": held}
        events.append({"t_ns": now, "event": "stage_begin", **where, **before})
        levels.append((now, held, overhead))
        levels.append((now + (end - now) // 4, peak, overhead))
        cut = a.status in ("ineligible", "interrupted") and step == 1 and stage == "actor_update"
        if cut:  # killed: everything written so far stays, nothing follows
            return events, levels, end
        if a.status == "memory_failure" and (peak + overhead > EFFECTIVE or n == len(plan) - 1):
            reached = min(peak, EFFECTIVE - overhead - 51 * MIB) // (2 * MIB) * (2 * MIB)
            levels[-1] = (levels[-1][0], reached, overhead)
            events.append(_failure(end, where, reached, overhead))
            return events, levels, end
        events.append({
            "t_ns": end, "event": "stage_end", **where, "allocated_bytes": held - 3 * MIB,
            "reserved_bytes": peak, "peak_allocated_bytes": peak - 5 * MIB, "peak_reserved_bytes": peak,
            "requested_bytes": held - MIB * 4, "peak_requested_bytes": peak - 6 * MIB,
            "alloc_retries": 0, "oom_count": 0, "tokens": 16 * 192 if stage not in ("initializing", "reward") else None,
        })  # fmt: skip
        now = end + rest
    events.append({"t_ns": now, "event": "finished", "completed_steps": STEPS})
    return events, levels, a.start_ns + a.duration_ns


def _failure(t_ns: int, where: dict, reserved: int, overhead: int) -> dict:
    free = EFFECTIVE - overhead - reserved
    message = (f"CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total capacity of 140.00 GiB of which "
               f"{free / MIB:.2f} MiB is free.")  # fmt: skip
    return {
        "t_ns": t_ns, "event": "failure", **where, "exception_types": ["OutOfMemoryError"], "message": message,
        "allocated_bytes": reserved - 40 * MIB, "reserved_bytes": reserved, "peak_allocated_bytes": reserved - 20 * MIB,
        "peak_reserved_bytes": reserved, "alloc_retries": 1, "oom_count": 1, "requested_alloc_bytes": 512 * MIB,
        "device_free_bytes": free, "reclaimable_bytes": 0,
    }  # fmt: skip


def _write_samples(path: Path, a: Attempt, levels: list, rng: random.Random) -> int:
    """memory.csv: the monitor's readings, whole device and process, `a.samples` rows. Returns the time of the last one.

    The sampler of a trial that ended early reads on at the last level, so that every attempt costs the same.
    """
    rows, current = [MEMORY_CSV_HEADER], 0
    t, process = a.start_ns, 0
    for _ in range(a.samples):
        while current < len(levels) and levels[current][0] <= t:
            process = levels[current][1] + levels[current][2]
            current += 1
        rows.append(f"{t},0,{BASELINE_USED + process},{process if a.has_process_used else ''}")
        t += INTERVAL_NS + rng.randrange(0, 90_000)
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return t


def _overhead(stage_number: int) -> int:
    """Bytes of context and loaded kernels: 0.5 GiB at the start, growing as stages are first entered."""
    return 512 * MIB + min(stage_number, 6) * 40 * MIB


def _allocation(a: Attempt) -> str:
    return hashlib.sha256(a.panel.encode()).hexdigest()[:16]


def _utc(seconds: int) -> str:
    day, rest = divmod(seconds, 86_400)
    month, day = divmod(day, 28)  # a simple calendar that never leaves a month's length
    return f"2026-{month + 1:02d}-{day + 1:02d}T{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}.000000Z"


def _write_json(path: Path, value: dict) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def _lines(records: list[dict]) -> str:
    return "".join(json.dumps(r) + "\n" for r in records)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("root", type=Path)
    parser.add_argument("--panels", type=int, default=1)
    parser.add_argument("--attempts", type=int, default=90, help="per panel")
    parser.add_argument("--samples", type=int, default=600, help="per attempt")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    for index in range(args.panels):
        print(write_panel(args.root, index, attempts=args.attempts, samples=args.samples, seed=args.seed))


if __name__ == "__main__":
    main()
