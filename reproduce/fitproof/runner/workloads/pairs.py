"""The OPD workload's settings, one set per model pair."""

from collections.abc import Mapping
from dataclasses import dataclass

from ...errors import UsageError
from ...schema.settings import Settings, resolve

PROMPTS = 64
"""Distinct structured prompts of the workload; 8 cycles of 4 consume the first 32 of them."""


@dataclass(frozen=True, slots=True)
class Pair:
    student: str
    teacher: str
    device_kind: str
    given: dict[str, object]
    """What this pair sets apart from the workload."""


_NF4 = {"quantization": "nf4"}
PAIRS = {
    "qwen3": Pair("Qwen/Qwen3-0.6B", "Qwen/Qwen3-1.7B", "cuda", _NF4),
    "smollm2": Pair("HuggingFaceTB/SmolLM2-360M-Instruct", "HuggingFaceTB/SmolLM2-1.7B-Instruct", "cuda", _NF4),
    # The whole path on any machine: one tiny backbone with two adapters, short sequences, nothing quantised.
    "tiny": Pair("fitproof/tiny-qwen3", "fitproof/tiny-qwen3", "cpu",
                 {"dtype": "float32", "max_prompt_length": 32, "max_response_length": 16}),
}  # fmt: skip
_WORKLOAD: dict[str, object] = dict(
    algorithm="opd", workload="custom", max_prompt_length=128, max_response_length=64, train_batch_size=4, rollout_n=1,
    max_num_seqs=4, actor_micro_batch=1, teacher_micro_batch=4, lora_rank=8, lora_alpha=16, lora_targets="attention",
    gradient_checkpointing=False, free_cache_engine=False, capture_micro_batches=True, total_training_steps=8,
    checkpoint_every=4, deterministic=True,
)  # fmt: skip


def pair_named(name: str) -> Pair:
    """Raises UsageError for an unknown pair."""
    if name not in PAIRS:
        raise UsageError(f"pair {name!r}", found="unknown", expected="one of: " + ", ".join(PAIRS))
    return PAIRS[name]


def workload_settings(name: str, overrides: Mapping[str, object] | None = None) -> Settings:
    """The settings of a pair; `overrides` win. Raises UsageError for what an interruption cannot be rehearsed with."""
    pair = pair_named(name)
    s = resolve(
        **{**_WORKLOAD, "model_id": pair.student, "teacher_id": pair.teacher, **pair.given, **(overrides or {})}
    )
    every, steps = s.checkpoint_every, s.total_training_steps
    wrong = [
        text
        for is_wrong, text in (
            (s.algorithm != "opd", f"algorithm={s.algorithm}: this workload is opd"),
            (s.adaptation != "lora", f"adaptation={s.adaptation}: this workload exports an adapter"),
            (not s.deterministic, "deterministic=false: two runs could differ without a fault"),
            (every == 0 or every >= steps or steps % every != 0,
             f"checkpoint_every={every} with total_training_steps={steps}: one must lie inside, one at the end"),
            (s.train_batch_size * steps > PROMPTS,
             f"{s.train_batch_size * steps} prompts are consumed, the workload has {PROMPTS}"),
        )
        if is_wrong
    ]  # fmt: skip
    if wrong:
        raise UsageError("workload opd", found="; ".join(wrong), hint="fitproof workload --help")
    return s
