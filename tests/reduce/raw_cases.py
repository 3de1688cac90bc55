"""The inputs of the golden cases: small run directories with numbers that can be checked by hand.

golden_inputs.py lists the cases and writes them; two stand in raw_workloads.py and raw_predictions.py.

Times are milliseconds from the attempt's start, sizes MiB, unless a name says otherwise. The attempt starts at 5 s of
the monotonic clock; the monitor reads 1,000 MiB before the child.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from fitproof.schema.canonical import canonical_json, sha256_hex, short_id
from fitproof.schema.records import MEMORY_CSV_HEADER, SCHEMA_VERSION
from fitproof.schema.settings import Settings, resolve

CASES = Path(__file__).parent / "cases"
MIB, MS = 1 << 20, 1_000_000
START_NS = 5_000 * MS
BASELINE_MIB = 1_000
REST_MS = 20
STACK = {"torch": "2.13.0", "transformers": "5.17.0"}
CODE = sha256_hex(b"golden")
GPU = {"device": "NVIDIA H200", "device_kind": "cuda"}
CPU = {"device": "cpu", "device_kind": "cpu"}


def settings(**given: object) -> Settings:
    return resolve(**{"model_id": "Qwen/Qwen3-0.6B", "capacity_mib": 16_384, **given})


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A run of a stage from begin to end. `end=None`: the trial stops in it."""

    name: str
    step: int
    begin: int
    end: int | None
    peak_reserved: int
    tokens: int | None = None
    reserved_at_end: int | None = None
    """Where not all of `peak_reserved` is still held at the end."""
    fact_at: int | None = None
    """When the child writes facts after the end."""
    facts: tuple[tuple[str, int | str], ...] = (("adapter_bytes", 7),)


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A plan of `slots` (settings, seed), written below `root`."""

    root: Path
    slots: list[tuple[Settings, int]]
    name: str = "golden"
    campaign: str = "first"
    allocation: str = "a1"
    device: dict = None  # type: ignore[assignment]
    minute: int = 0
    """Minute of the hour at which its attempts start."""
    predictions: str | None = None
    """SHA-256 of the predictions that its plan names."""

    def slot_id(self, place: int) -> str:
        chosen, seed = self.slots[place]
        return short_id({"panel": self.name, "settings": chosen.identity(), "seed": seed})

    def plan(self) -> dict:
        slots = [
            {"slot_id": self.slot_id(i), "seed": seed, "settings": chosen.identity(), "estimate_seconds": 9}
            for i, (chosen, seed) in enumerate(self.slots)
        ]
        plan = {"schema_version": SCHEMA_VERSION, "panel": self.name, "reason": "golden", "code_digest": CODE,
                "device_kind": (self.device or GPU)["device_kind"], "predictions_digest": self.predictions,
                "slots": slots}  # fmt: skip
        return {**plan, "digest": sha256_hex(canonical_json(plan))}

    def ledger(self, place: int, number: int, event: str, **end: object) -> None:
        second = place * 4 + number * 2 - (event == "start")
        record = {"event": event, "slot_id": self.slot_id(place), "attempt": number, "at": self.at(second),
                  "allocation_id": self.allocation, "campaign": self.campaign, "status": None, "failure_class": None,
                  **end}  # fmt: skip
        folder = self.root / self.name
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / "plan.json", self.plan())
        with (folder / "ledger.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def at(self, second: int) -> str:
        return f"2026-12-01T10:{self.minute:02d}:{second:02d}.000000Z"

    def attempt(
        self,
        place: int,
        stages: list[Stage],
        samples: list[tuple[int, int, int | None]],
        *,
        number: int = 1,
        status: str | None = "completed",
        failure: dict | None = None,
        failure_class: str | None = None,
        facts: dict | None = None,
        torn: bool = False,
        taken: int = 12,
    ) -> Path:
        """Write one attempt. `samples`: (ms, device used above the baseline, process used). `status=None`: no result.

        `failure`: fields of a failure event that replace the defaults, with `ms`. `taken`: asked - effective capacity.
        """
        chosen, seed = self.slots[place]
        device = self.device or GPU
        is_cpu = device["device_kind"] == "cpu"
        folder = self.root / self.name / self.slot_id(place) / f"attempt-{number}"
        folder.mkdir(parents=True)
        self.ledger(place, number, "start")
        capacity = None if is_cpu else chosen.capacity_mib
        _write(folder / "trial.json", {
            "schema_version": SCHEMA_VERSION, "execution": "measured", "panel": self.name,
            "slot_id": self.slot_id(place), "attempt": number, "seed": seed, "settings": chosen.identity(),
            "settings_id": chosen.settings_id,
            "configuration_id": chosen.configuration_id(device=device["device"], **STACK), **device, **STACK,
            "capacity_mib": capacity, "capacity_source": None if is_cpu else chosen.capacity_source,
            "effective_capacity_bytes": None if is_cpu else (capacity - taken) * MIB,
            "monitor_free_bytes": None if is_cpu else capacity * MIB, "ballast_bytes": None if is_cpu else 900 * MIB,
            "baseline_used_bytes": None if is_cpu else BASELINE_MIB * MIB, "weights": "random", "revision": None,
            "start_method": "forkserver", "sampler_interval_ns": 10 * MS, "time_limit_seconds": 540,
            "created_at": self.at(place * 4 + number * 2 - 1), "plan_digest": self.plan()["digest"],
            "code_digest": CODE, "campaign": self.campaign, "allocation_id": self.allocation,
        })  # fmt: skip
        _write(folder / "environment.json", {
            "device_name": device["device"], "device_digest": None if is_cpu else "c" * 16,
            "driver_version": None if is_cpu else "580.1", "compute_capability": None if is_cpu else "9.0",
            "driver_total_bytes": None if is_cpu else 140_000 * MIB,
            "monitor_total_bytes": None if is_cpu else 140_615 * MIB, **STACK, "cuda": None if is_cpu else "13.0",
            "cudnn": None, "peft": "0.21.0", "bitsandbytes": None, "allocator_settings": {}, "python": "3.11.7",
            "os": "Linux", "host_memory_bytes": 1 << 36, "host_cores": 2,
        })  # fmt: skip
        finished = chosen.total_training_steps if status == "completed" else None
        events = _events(stages, facts or {}, failure, finished)
        tail = '{"t_ns": 99' if torn else ""
        (folder / "events.jsonl").write_text("".join(json.dumps(e) + "\n" for e in events) + tail, encoding="utf-8")
        base = 0 if is_cpu else BASELINE_MIB
        rows = [f"{START_NS + ms * MS},0,{(base + d) * MIB},{'' if p is None else p * MIB}" for ms, d, p in samples]
        tail = "59999,0,1" if torn else ""
        text = "".join(line + "\n" for line in (MEMORY_CSV_HEADER, *rows)) + tail
        (folder / "memory.csv").write_text(text, encoding="utf-8")
        for log in ("stdout.log", "stderr.log"):
            (folder / log).write_text("", encoding="utf-8")
        if status is not None:
            memory = status == "memory_failure"
            failure_class = "device_memory" if memory else failure_class
            stage = stages[-1].name if failure_class else None
            _write(folder / "result.json", {
                "status": status, "exit_code": 0 if status == "completed" else 1, "signal": None,
                "failure_class": failure_class, "failure_stage": stage,
                "evidence": "OutOfMemoryError: CUDA out of memory" if memory else None,
                "reason": f"the attempt failed: {failure_class}" if status == "ineligible" else None,
                "completed_steps": chosen.total_training_steps if status == "completed" else 0,
                "wall_ns": 1_500 * MS, "device_ns": 2_000 * MS, "samples": len(rows), "median_interval_ns": 10 * MS,
                "max_interval_ns": 12 * MS, "ended_at": self.at(place * 4 + number * 2),
            })  # fmt: skip
            self.ledger(place, number, "end", status=status, failure_class=failure_class)
        return folder


def _events(stages: list[Stage], facts: dict, failure: dict | None, finished: int | None) -> list[dict]:
    events = [{"t_ns": START_NS, "event": "fact", "name": name, "value": value} for name, value in facts.items()]
    for s in stages:
        where = {"stage": s.name, "step": s.step}
        begin = {"allocated_bytes": 10 * MIB, "reserved_bytes": 20 * MIB}
        events.append({"t_ns": START_NS + s.begin * MS, "event": "stage_begin", **where, **begin})
        if s.end is not None:
            peak = s.peak_reserved * MIB
            events.append({
                "t_ns": START_NS + s.end * MS, "event": "stage_end", **where, "allocated_bytes": 10 * MIB,
                "reserved_bytes": peak if s.reserved_at_end is None else s.reserved_at_end * MIB,
                "peak_allocated_bytes": peak - 5 * MIB, "peak_reserved_bytes": peak,
                "requested_bytes": 9 * MIB, "peak_requested_bytes": peak - 6 * MIB, "alloc_retries": 0, "oom_count": 0,
                "tokens": s.tokens,
            })  # fmt: skip
            if s.fact_at is not None:
                events += [
                    {"t_ns": START_NS + s.fact_at * MS, "event": "fact", "name": name, "value": value}
                    for name, value in s.facts
                ]
    if failure is not None:
        last, at = stages[-1], START_NS + failure["ms"] * MS
        events.append({
            "t_ns": at, "event": "failure", "stage": last.name, "step": last.step,
            "exception_types": ["OutOfMemoryError", "RuntimeError"], "message": "CUDA out of memory",
            "allocated_bytes": (last.peak_reserved - 30) * MIB, "reserved_bytes": last.peak_reserved * MIB,
            "peak_allocated_bytes": (last.peak_reserved - 20) * MIB, "peak_reserved_bytes": last.peak_reserved * MIB,
            "alloc_retries": 1, "oom_count": 1, "requested_alloc_bytes": 512 * MIB, "device_free_bytes": 100 * MIB,
            "reclaimable_bytes": 0,
        })  # fmt: skip
    if finished is not None:
        events.append({"t_ns": events[-1]["t_ns"] + REST_MS * MS, "event": "finished", "completed_steps": finished})
    return events


def _write(path: Path, value: dict) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def plain(peak: int, update: str = "actor_update") -> list[Stage]:
    """Initializing, a rollout, an update that holds the peak; a rest of 20 ms after each."""
    return [
        Stage(name="initializing", step=0, begin=100, end=300, peak_reserved=2_000),
        Stage(name="rollout", step=1, begin=320, end=500, peak_reserved=6_000, tokens=3_072),
        Stage(name=update, step=1, begin=520, end=700, peak_reserved=peak, tokens=1_024),
    ]


def used(peak: int, *, process: bool = True) -> list[tuple[int, int, int | None]]:
    """Samples for `plain`: process used is reserved + 500 MiB just before stage ends and in the rests after them."""
    rows = [(0, 0, 0), (150, 400, 400), (299, 2_500, 2_500), (310, 2_500, 2_500), (400, 6_400, 6_400),
            (499, 6_500, 6_500), (510, 6_500, 6_500), (600, 7_000, 7_000), (699, peak + 500, peak + 500),
            (710, peak + 500, peak + 500), (730, 600, 600)]  # fmt: skip
    return rows if process else [(ms, device, None) for ms, device, _ in rows]


def complete(case: Path) -> None:
    """Three seeds within the margin. Seed 0 has dense samples with ties, to be thinned, and a spike between samples:
    reserved reached 9,000 MiB, overhead is 500 (process used 6,500 after the rollout), no sample exceeds 7,000."""
    panel = Panel(root=case / "2026-12-01_h200_golden", slots=[(settings(), seed) for seed in range(3)])
    stages = plain(9_000)
    # 6 samples in the bucket 320..419 of the rollout: first 320, device maximum 7,000 first at 330, process at 340
    dense = [(320, 3_000, 3_000), (325, 4_000, 4_000), (330, 7_000, 5_000), (340, 7_000, 6_500), (350, 7_000, 6_500),
             (390, 100, 90)]  # fmt: skip
    tail = [(499, 6_500, 6_500), (510, 6_500, 6_500), (515, 6_000, 6_000), (600, 7_000, 7_000), (640, 700, 7_000),
            (800, 600, 600)]  # fmt: skip
    panel.attempt(
        0, stages, [(0, 0, 0), (150, 400, 400), (310, 2_400, 2_400), *dense, *tail], facts={"parameters": 596}
    )
    for place in (1, 2):
        panel.attempt(place, stages, used(9_000), facts={"parameters": 596})


def above_margin(case: Path) -> None:
    """All complete; seed 2 peaks one MiB above L = 16,384 - 12 - 2,048 = 14,324 MiB, seed 1 exactly at L."""
    panel = Panel(root=case / "2026-12-01_h200_golden", slots=[(settings(), seed) for seed in range(3)])
    for place, peak in enumerate((9_000, 13_824, 13_825)):
        panel.attempt(place, plain(peak), used(peak))


def memory_failure(case: Path) -> None:
    """Seed 1 runs out of memory in the second step's rollout; seed 2 without an event of its own. Seed 0 completes."""
    panel = Panel(root=case / "2026-12-01_h200_golden", slots=[(settings(), seed) for seed in range(3)])
    panel.attempt(0, plain(9_000), used(9_000))
    stages = [*plain(9_000), Stage(name="rollout", step=2, begin=720, end=None, peak_reserved=15_000)]
    samples = [*used(9_000)[:-1], (735, 8_000, 8_000), (790, 15_800, 15_800), (900, 300, 300)]
    panel.attempt(1, stages, samples, status="memory_failure", failure={"ms": 800})
    panel.attempt(2, stages, samples, status="memory_failure")


def interrupted(case: Path) -> None:
    """Seed 0: attempt 1 has no result and torn last lines, attempt 2 completes. Seed 1: a start and nothing else.
    Seed 2: never started."""
    panel = Panel(root=case / "2026-12-01_h200_golden", slots=[(settings(), seed) for seed in range(3)])
    panel.attempt(0, [*plain(9_000)[:1]], [(0, 0, 0), (150, 400, 400)], status=None, torn=True)
    panel.attempt(0, plain(9_000), used(9_000), number=2)
    panel.ledger(1, 1, "start")


def replacement(case: Path) -> None:
    """A device fault, replaced by an attempt that completes; of another slot both attempts time out."""
    panel = Panel(root=case / "2026-12-01_h200_golden", slots=[(settings(), 0), (settings(), 1)])
    for place, failure_class in ((0, "device_fault"), (1, "timeout")):
        panel.attempt(place, plain(9_000)[:2], used(9_000)[:4], status="ineligible", failure_class=failure_class)
    panel.attempt(0, plain(9_000), used(9_000), number=2)
    panel.attempt(1, plain(9_000)[:2], used(9_000)[:4], number=2, status="ineligible", failure_class="timeout")


def cpu(case: Path) -> None:
    """On a CPU: device used is the unique set size minus its 300 MiB at the start; no capacity, overhead or label."""
    tiny = resolve(model_id="fitproof/tiny-qwen3", dtype="float32", capacity_mib=None)
    panel = Panel(root=case / "2026-12-01_cpu_golden", slots=[(tiny, seed) for seed in range(3)], device=CPU)
    for place in range(3):
        samples = [(ms, 0, process) for ms, _, process in used(900)]
        panel.attempt(place, plain(900), samples, facts={"baseline_process_bytes": 300 * MIB})


def no_process_used(case: Path) -> None:
    """The driver gives no process-used bytes: no overhead, and only samples count. The spike of 9,000 MiB escapes."""
    panel = Panel(root=case / "2026-12-01_h200_golden", slots=[(settings(), 0)])
    samples = [(ms, min(device, 7_000), None) for ms, device, _ in used(9_000)]
    panel.attempt(0, plain(9_000), samples)


def two_campaigns(case: Path) -> None:
    """The same plan measured twice. The later campaign, which fails, does not enter the label; its archive sorts first.
    A second panel shares seed 0's cell and starts later: the configuration keeps its first panel."""
    slots = [(settings(), seed) for seed in range(3)]
    first = Panel(root=case / "2026-12-02_h200_first", slots=slots)
    later = Panel(root=case / "2026-12-01_h200_later", slots=slots, campaign="later", allocation="b2", minute=30)
    shared = Panel(root=case / "2026-12-02_h200_first", slots=slots[:1], name="a-later-panel", minute=20)
    stages = [*plain(9_000), Stage(name="rollout", step=2, begin=720, end=None, peak_reserved=15_000)]
    for place in range(3):
        first.attempt(place, plain(9_000), used(9_000))
        later.attempt(place, stages, used(9_000), status="memory_failure", failure={"ms": 800})
    shared.attempt(0, plain(9_000), used(9_000))


def small_capacity(case: Path) -> None:
    """3,072 MiB of capacity: no label, only single_run_state; 95 % of 3,060 MiB is 2,907."""
    small = settings(capacity_mib=3_072)
    panel = Panel(root=case / "2026-12-01_h200_golden", slots=[(small, seed) for seed in range(3)])
    for place, peak in enumerate((500, 2_000, 2_407)):
        panel.attempt(
            place, plain(peak)[:1] + plain(peak)[2:], [(0, 0, 0), (150, 400, 400), (710, peak + 500, peak + 500)]
        )


def four_seeds(case: Path) -> None:
    """The label is of the three smallest seeds, whatever their order in time, under the smallest of their limits.
    At 16,384 MiB seed 9 starts first and fails, and does not count. Seed 2 had 100 MiB less: L = 14,224 MiB. Seed 3's
    peak of 14,300 is within its own limit of 14,324 and above L. At 20,480 MiB seed 0 has no sample and no known peak:
    no single-run state, and unresolved. The same where such a trial is one of three and another fails: memory_failure.
    """
    slots = [(settings(), seed) for seed in (9, 3, 2, 1)]
    slots += [(settings(capacity_mib=size), seed) for size in (20_480, 24_576) for seed in (2, 1, 0)]
    panel = Panel(root=case / "2026-12-01_h200_golden", slots=slots)
    panel.attempt(0, plain(9_000), used(9_000), status="memory_failure")
    panel.attempt(1, plain(13_800), used(13_800))
    panel.attempt(2, plain(9_000), used(9_000), taken=112)
    panel.attempt(3, plain(9_000), used(9_000))
    for place in range(4, 10):
        samples = [] if slots[place][1] == 0 else used(9_000)
        panel.attempt(place, plain(9_000), samples, status="memory_failure" if place == 7 else "completed")


def released_pool(case: Path) -> None:
    """The rollout gives its pool of 9,000 MiB back just before its end, and a sample 3 ms before still shows it.
    Seed 0: 12,500 MiB process used at 497, 3,000 reserved at the end (500), 3,500 process used at 510: the overhead is
    500, not 9,500, and the peak 12,000 + 500, within L = 14,324. Seed 1: no rests, its samples lie before the ends, at
    the next begins, and after the finish: no overhead, only samples count. Seed 2: a sample 51 ms after an end does not
    count (7,000), one at the very end does (480), one after a fact does (510), one at the next begin does not (4,000).
    """
    panel = Panel(root=case / "2026-12-01_h200_golden", slots=[(settings(), seed) for seed in range(3)])

    def stages(*, rests: tuple[int, int], fact_at: int | None = None) -> list[Stage]:
        return [
            Stage(name="initializing", step=0, begin=100, end=300, peak_reserved=2_000),
            Stage(name="rollout", step=1, begin=300 + rests[0], end=500, peak_reserved=12_000, tokens=3_072,
                  reserved_at_end=3_000),
            Stage(name="actor_update", step=1, begin=500 + rests[1], end=700, peak_reserved=8_000, tokens=1_024,
                  fact_at=fact_at),
        ]  # fmt: skip

    before = [(0, 0, 0), (150, 400, 400), (299, 2_500, 2_500)]
    pool = [(400, 12_500, 12_500), (497, 12_500, 12_500)]
    rests = [(310, 2_500, 2_500), *pool, (510, 3_500, 3_500), (699, 8_500, 8_500), (710, 8_500, 8_500)]
    panel.attempt(0, stages(rests=(20, 20)), [*before, *rests])
    begins = [(301, 2_500, 2_500), *pool, (502, 3_500, 3_500), (699, 8_500, 8_500), (720, 8_500, 8_500)]
    panel.attempt(1, stages(rests=(1, 2)), [*before, *begins])
    edges = [(351, 9_000, 9_000), *pool, (500, 3_480, 3_480), (530, 7_000, 7_000), (705, 8_510, 8_510)]
    panel.attempt(2, stages(rests=(80, 30), fact_at=702), [*before, *edges])
