"""Columns that several views share, and the one column per setting. Each is defined once."""

from typing import get_args, get_type_hints

from ..settings import FIELD_NAMES, Settings
from ..view import Column

NEVER = "never"
NO_TRIAL = "the attempt is not the eligible trial of its slot"
ON_CPU = "on a CPU"

CONFIGURATION_ID = Column("configuration_id", "VARCHAR", "", NEVER,
                          "16 hex digits over settings, capacity, steps, device name and torch and transformers "
                          "major.minor.")  # fmt: skip
SETTINGS_ID = Column("settings_id", "VARCHAR", "", NEVER,
                     "16 hex digits over all settings except capacity, its source, steps and device "
                     "count.")  # fmt: skip
TRIAL_ID = Column("trial_id", "VARCHAR", "", NEVER, "16 hex digits over panel, slot, configuration and campaign.")
PANEL = Column("panel", "VARCHAR", "", NEVER, "Panel whose frozen plan holds the slot.")
SLOT_ID = Column("slot_id", "VARCHAR", "", NEVER, "16 hex digits over panel, settings and seed.")
SEED = Column("seed", "BIGINT", "", NEVER, "Seed of the slot.")
CAMPAIGN = Column("campaign", "VARCHAR", "", NEVER, "Name of the measuring campaign, as the ledger gives it.")
MODEL_ID = Column("model_id", "VARCHAR", "", NEVER, "Architecture under training, as a Hub id.")
WORKLOAD = Column("workload", "VARCHAR", "", NEVER, "Name of the lengths and batch shape, or 'custom'.")
DEVICE = Column("device", "VARCHAR", "", NEVER, "Device name as the driver gives it, or 'cpu'.")
CAPACITY_MIB = Column("capacity_mib", "BIGINT", "MiB", ON_CPU,
                      "Asked capacity; the device's total where the whole card was asked for.")  # fmt: skip
CAPACITY_SOURCE = Column("capacity_source", "VARCHAR", "", ON_CPU,
                         "'device': a real card; 'emulated': a ballast process took the rest of a larger "
                         "card.")  # fmt: skip
ARCHIVE = Column("archive", "VARCHAR", "", NEVER, "Archive under releases/ that holds the raw record, without suffix.")
STAGE = Column("stage", "VARCHAR", "", NEVER, "Stage of the trial program.")

# name: (unit, null rule, meaning), in the order of Settings. Types come from Settings itself.
_SETTINGS = {
    "model_id": ("", NEVER, MODEL_ID.meaning),
    "teacher_id": ("", "algorithm is not opd", "Scoring model; the same as model_id means one backbone, two adapters."),
    "workload": ("", NEVER, WORKLOAD.meaning),
    "algorithm": ("", NEVER, "grpo, ppo or opd."),
    "adaptation": ("", NEVER, "lora or full."),
    "lora_rank": ("count", "adaptation is not lora", "Rank of the adapters."),
    "lora_alpha": ("", "adaptation is not lora", "Scale of the adapters."),
    "lora_targets": ("", "adaptation is not lora", "all_linear: seven projections; attention: q, k, v, o."),
    "adapter_dtype": ("", "adaptation is not lora", "Number format of the adapters."),
    "quantization": ("", NEVER, "Storage of the frozen base weights: none or nf4."),
    "optimizer": ("", NEVER, "adamw, adamw_8bit or paged_adamw_8bit."),
    "dtype": ("", NEVER, "Number format of base weights and compute."),
    "gradient_checkpointing": ("", NEVER, "Activations are recomputed in the backward pass."),
    "logits_chunk": ("positions", NEVER, "Positions per vocabulary-loss chunk; 0: all at once."),
    "use_kl": ("", NEVER, "The loss has a KL term to the reference."),
    "reference": ("", NEVER, "none, adapter_off (same weights without adapter) or copy (a second model)."),
    "train_batch_size": ("prompts", NEVER, "Prompts per step."),
    "rollout_n": ("count", NEVER, "Responses per prompt."),
    "actor_micro_batch": ("sequences", NEVER, "Sequences per forward and backward pass of the update."),
    "rollout_logprob_micro_batch": ("sequences", "algorithm is opd", "Sequences per pass of old-policy scoring."),
    "ref_logprob_micro_batch": ("sequences", "reference is none", "Sequences per pass of reference scoring."),
    "critic_micro_batch": ("sequences", "algorithm is not ppo", "Sequences per pass of the critic's update."),
    "teacher_micro_batch": ("sequences", "algorithm is not opd", "Sequences per pass of teacher scoring."),
    "max_prompt_length": ("tokens", NEVER, "Every prompt is padded to this."),
    "max_response_length": ("tokens", NEVER, "Every response is forced to this."),
    "padding": ("", NEVER, "mask: attention takes a padding mask; none: full length, no mask."),
    "max_num_seqs": ("sequences", NEVER, "Most sequences decoded at once; larger batches run in waves."),
    "kv_reservation": ("fraction", "no pool reservation was set",
                       "Decimal text: fraction of the capacity that the KV pool may fill together with what is "
                       "reserved then."),
    "free_cache_engine": ("", "the engine keeps no pool", "The pool is released after each rollout."),
    "rollout_weights": ("", NEVER, "shared with the actor, or a copy that weight_sync refreshes."),
    "parameter_offload": ("", NEVER, "Parameters go to pinned host memory between stages."),
    "optimizer_offload": ("", NEVER, "Optimizer state goes to pinned host memory between stages."),
    "empty_cache": ("", NEVER, "Cached blocks are returned to the driver between stages."),
    "total_training_steps": ("steps", NEVER, "Steps of the trial."),
    "decode_coverage": ("", NEVER, "full, or edges: the first and last 8 positions of every bucket."),
    "checkpoint_every": ("steps", NEVER, "Steps between checkpoints; 0: none."),
    "deterministic": ("", NEVER, "Deterministic kernels were demanded."),
    "gpu_count": ("count", NEVER, "Devices."),
    "capacity_mib": ("MiB", ON_CPU + ", or not started and the whole card asked for", CAPACITY_MIB.meaning),
    "capacity_source": ("", ON_CPU, CAPACITY_SOURCE.meaning),
    "attn_implementation": ("", NEVER, "Attention backend of transformers."),
    "allocator": ("", NEVER, "default or expandable_segments."),
    "rollout_engine": ("", NEVER, "hf_generate, hf_paged, cuda_graph or vllm."),
    "capture_micro_batches": ("", NEVER, "Micro-batches of scoring and updates are replayed from a CUDA graph."),
    "micro_batch_coverage": ("", NEVER, "full, or edges: of every pass the first micro-batch, the last of its size, a smaller last."),
}  # fmt: skip
_TYPES = {str: "VARCHAR", int: "BIGINT", bool: "BOOLEAN"}


def _setting_types() -> dict[str, str]:
    hints = get_type_hints(Settings)
    plain = {name: [t for t in get_args(hints[name]) or (hints[name],) if t is not type(None)] for name in FIELD_NAMES}
    return {name: _TYPES[kinds[0]] for name, kinds in plain.items()}


SETTING_TYPES: dict[str, str] = _setting_types()
"""Setting -> DuckDB type, in the order of Settings."""
SETTING_COLUMNS: dict[str, Column] = {name: Column(name, SETTING_TYPES[name], *_SETTINGS[name]) for name in FIELD_NAMES}
