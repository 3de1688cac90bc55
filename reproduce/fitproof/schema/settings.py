"""Settings: everything that decides the memory of one trial. No seed, no outcome.

`resolve(**given)` is the way in: it fills defaults, named workloads and `auto`, sets what does not apply to None, and
checks the whole. Ids are hashes of the canonical JSON of a resolved Settings, so two spellings of one configuration
have one id.
"""

from dataclasses import dataclass, fields

from ..errors import SettingsError
from .canonical import decimal_string, short_id
from .models import get_model
from .workloads import WORKLOADS

CHOICES: dict[str, tuple[str, ...]] = {
    "algorithm": ("grpo", "ppo", "opd"),
    "adaptation": ("lora", "full"),
    "lora_targets": ("all_linear", "attention"),
    "adapter_dtype": ("float32", "bfloat16", "float16"),
    "quantization": ("none", "nf4"),
    "optimizer": ("adamw", "adamw_8bit", "paged_adamw_8bit"),
    "dtype": ("bfloat16", "float16", "float32"),
    "reference": ("none", "adapter_off", "copy"),
    "padding": ("mask", "none"),
    "rollout_weights": ("shared", "copy"),
    "decode_coverage": ("full", "edges"),
    "micro_batch_coverage": ("full", "edges"),
    "capacity_source": ("device", "emulated"),
    "attn_implementation": ("sdpa", "eager"),
    "allocator": ("default", "expandable_segments"),
    "rollout_engine": ("hf_generate", "hf_paged", "cuda_graph", "vllm"),
}
ALIASES = {"model": "model_id", "teacher": "teacher_id", "capacity": "capacity_mib", "engine": "rollout_engine"}
# A column here is left out of the hash at this value: a setting added after evidence was frozen never moves an old id.
ADDED_LATER: dict[str, object] = {"capture_micro_batches": False, "micro_batch_coverage": "full"}
# What two configurations may differ in and still be "the same settings" (DATA_CONTRACT 4).
NOT_IN_SETTINGS_ID = ("capacity_mib", "capacity_source", "total_training_steps", "gpu_count")


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """One resolved configuration. Build it with `resolve`; the constructor checks and refuses what is inconsistent."""

    model_id: str
    """Architecture under training, an id of the catalogue."""
    teacher_id: str | None
    """opd only: the scoring model. The same id as model_id means one backbone with two adapters."""
    workload: str
    """Name of the lengths and batch shape, or 'custom'."""
    algorithm: str
    """grpo, ppo or opd."""
    adaptation: str
    """lora or full."""
    lora_rank: int | None
    lora_alpha: int | None
    lora_targets: str | None
    """all_linear: the seven projections; attention: q, k, v, o."""
    adapter_dtype: str | None
    quantization: str
    """Storage of the frozen base weights: none or nf4 (bitsandbytes)."""
    optimizer: str
    dtype: str
    """Base weights and compute."""
    gradient_checkpointing: bool
    logits_chunk: int
    """Positions per vocabulary-loss chunk; 0 = all at once."""
    use_kl: bool
    """grpo and ppo: KL to the reference in the loss. False drops the reference stage."""
    reference: str
    """none, adapter_off (the same weights without their adapter) or copy (a second model)."""
    train_batch_size: int
    """Prompts per step."""
    rollout_n: int
    """Responses per prompt."""
    actor_micro_batch: int
    rollout_logprob_micro_batch: int | None
    ref_logprob_micro_batch: int | None
    critic_micro_batch: int | None
    """ppo only."""
    teacher_micro_batch: int | None
    """opd only."""
    max_prompt_length: int
    max_response_length: int
    padding: str
    """mask: sequences carry a padding mask into attention; none: full-length, no mask."""
    max_num_seqs: int
    """Most sequences decoded at once; a larger batch runs in waves."""
    kv_reservation: str | None
    """Fraction of the capacity that the KV pool may fill together with what is reserved when it is made (decimal); with
    vllm, together with what vLLM itself takes. None: as much as the sequences decoded at once need."""
    free_cache_engine: bool | None
    """True: the pool is released after each rollout. None where the engine keeps no pool."""
    rollout_weights: str
    """shared with the actor, or a copy that weight_sync refreshes."""
    parameter_offload: bool
    optimizer_offload: bool
    empty_cache: bool
    """Return cached blocks to the driver between stages."""
    total_training_steps: int
    decode_coverage: str
    """full, or edges: the first and last 8 positions of every bucket (cuda_graph only)."""
    checkpoint_every: int
    """Steps between checkpoints; 0 = none."""
    deterministic: bool
    gpu_count: int
    capacity_mib: int | None
    """Asked capacity in MiB; None with capacity_source=device means the whole card, on a CPU no capacity at all."""
    capacity_source: str
    attn_implementation: str
    allocator: str
    rollout_engine: str
    capture_micro_batches: bool
    """Equal micro-batches of scoring and updates are replayed from one CUDA graph, whose memory pool stays apart."""
    micro_batch_coverage: str
    """full, or edges: of every pass the first micro-batch, the last of its size, a smaller last."""

    def __post_init__(self) -> None:
        problems = check(self)
        if problems:
            raise SettingsError(
                "settings",
                found="; ".join(problems),
                hint="views/README.md  # every setting is a column of configurations",
            )

    @property
    def model_family(self) -> str:
        return get_model(self.model_id).family

    @property
    def sequence_length(self) -> int:
        """Positions per sequence, prompt and response."""
        return self.max_prompt_length + self.max_response_length

    @property
    def rollout_batch(self) -> int:
        """Sequences per step."""
        return self.train_batch_size * self.rollout_n

    def identity(self) -> dict:
        """The canonical object behind the ids: all settings, later additions left out at their old value."""
        values = {name: getattr(self, name) for name in FIELD_NAMES}  # flat; asdict copies deeply, ten times slower
        return {k: v for k, v in values.items() if not (k in ADDED_LATER and ADDED_LATER[k] == v)}

    @property
    def settings_id(self) -> str:
        """16 hex digits; equal for configurations that differ only in capacity, steps or device count."""
        return short_id({k: v for k, v in self.identity().items() if k not in NOT_IN_SETTINGS_ID})

    def configuration_id(self, *, device: str, torch: str, transformers: str) -> str:
        """16 hex digits over settings, capacity, steps, devices, the device's name and the stack's major.minor."""
        rest = {name: getattr(self, name) for name in NOT_IN_SETTINGS_ID}
        stack = {"device": device, "torch": major_minor(torch), "transformers": major_minor(transformers)}
        return short_id({"settings_id": self.settings_id, **rest, **stack})


def major_minor(version: str) -> str:
    """'2.11.0+cu130' -> '2.11'."""
    return ".".join(version.split("+")[0].split(".")[:2])


FIELD_NAMES = tuple(f.name for f in fields(Settings))
_POSITIVE = ("train_batch_size", "rollout_n", "actor_micro_batch", "rollout_logprob_micro_batch",
             "ref_logprob_micro_batch", "critic_micro_batch", "teacher_micro_batch", "max_prompt_length",
             "max_response_length", "max_num_seqs", "total_training_steps", "gpu_count", "lora_rank", "lora_alpha",
             "capacity_mib")  # fmt: skip
_NON_NEGATIVE = ("logits_chunk", "checkpoint_every")
_BOOLEANS = ("gradient_checkpointing", "use_kl", "free_cache_engine", "parameter_offload", "optimizer_offload",
             "empty_cache", "deterministic", "capture_micro_batches")  # fmt: skip
_NULLABLE = {"teacher_id", "lora_rank", "lora_alpha", "lora_targets", "adapter_dtype", "rollout_logprob_micro_batch",
             "ref_logprob_micro_batch", "critic_micro_batch", "teacher_micro_batch", "kv_reservation",
             "free_cache_engine", "capacity_mib"}  # fmt: skip


def check(s: Settings) -> list[str]:
    """Every problem of `s`, in one list, in words a user can act on."""
    problems = []
    for name in FIELD_NAMES:
        value = getattr(s, name)
        if value is None:
            if name not in _NULLABLE:
                problems.append(f"{name} may not be null")
        elif name in CHOICES and value not in CHOICES[name]:
            problems.append(f"{name}={value!r} is not one of {', '.join(CHOICES[name])}")
        elif name in _BOOLEANS and not isinstance(value, bool):
            problems.append(f"{name}={value!r} is not true or false")
        elif name in _POSITIVE + _NON_NEGATIVE:
            least = 1 if name in _POSITIVE else 0
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                problems.append(f"{name}={value!r} is not an integer >= {least}")
    if problems:
        return problems  # the checks below may assume types
    return _check_model(s) + _check_combinations(s)


def _check_model(s: Settings) -> list[str]:
    problems = []
    for name in ("model_id", "teacher_id"):
        model_id = getattr(s, name)
        if model_id is None:
            continue
        model = get_model(model_id)
        if model.model_id != model_id:
            problems.append(f"{name}={model_id!r}: write the full id {model.model_id!r}")
        longest = model.config["max_position_embeddings"]
        if s.sequence_length > longest:
            problems.append(f"{s.sequence_length} positions exceed max_position_embeddings={longest} of {model_id}")
    if s.workload != "custom":
        if s.workload not in WORKLOADS:
            problems.append(f"workload={s.workload!r} is not one of {', '.join(WORKLOADS)}, custom")
        elif any(getattr(s, k) != v for k, v in WORKLOADS[s.workload].items()):
            problems.append(f"workload={s.workload!r} has other lengths or batches; call it custom")
    return problems


def _check_combinations(s: Settings) -> list[str]:
    lora, opd = s.adaptation == "lora", s.algorithm == "opd"
    pooled = s.rollout_engine != "hf_generate"
    rules = [
        (lora == (s.lora_rank is not None), "lora_rank goes with adaptation=lora"),
        (lora == (s.lora_alpha is not None), "lora_alpha goes with adaptation=lora"),
        (lora == (s.lora_targets is not None), "lora_targets goes with adaptation=lora"),
        (lora == (s.adapter_dtype is not None), "adapter_dtype goes with adaptation=lora"),
        (s.quantization == "none" or lora, "quantization=nf4 freezes the base: it needs adaptation=lora"),
        (opd == (s.teacher_id is not None), "teacher_id goes with algorithm=opd"),
        (opd == (s.teacher_micro_batch is not None), "teacher_micro_batch goes with algorithm=opd"),
        ((s.algorithm == "ppo") == (s.critic_micro_batch is not None), "critic_micro_batch goes with algorithm=ppo"),
        (not (opd and s.use_kl), "algorithm=opd has no reference KL: use_kl=false"),
        (s.use_kl == (s.reference != "none"), "use_kl and reference=none contradict each other"),
        (s.reference != "adapter_off" or lora, "reference=adapter_off needs adaptation=lora"),
        ((s.reference != "none") == (s.ref_logprob_micro_batch is not None),
         "ref_logprob_micro_batch goes with a reference"),
        (opd == (s.rollout_logprob_micro_batch is None), "rollout_logprob_micro_batch goes with grpo and ppo"),
        (not s.kv_reservation or pooled, "kv_reservation is for engines that keep a pool, not hf_generate"),
        (pooled == (s.free_cache_engine is not None), "free_cache_engine goes with an engine that keeps a pool"),
        (s.rollout_engine != "vllm" or s.rollout_weights == "copy",
         "rollout_engine=vllm keeps weights of its own: rollout_weights=copy"),
        (s.rollout_engine != "vllm" or s.kv_reservation is not None,
         "rollout_engine=vllm sizes its pool by kv_reservation"),
        (s.rollout_engine != "vllm" or s.quantization == "none",
         "rollout_engine=vllm is given plain weights: quantization=none"),
        (s.rollout_engine != "vllm" or not s.free_cache_engine or s.allocator == "default",
         "vllm's sleep mode (free_cache_engine) switches expandable segments off: allocator=default"),
        (s.decode_coverage == "full" or s.rollout_engine == "cuda_graph",
         "decode_coverage=edges needs rollout_engine=cuda_graph"),
        (s.capacity_source == "device" or s.capacity_mib is not None, "capacity_source=emulated needs capacity_mib"),
        (s.optimizer != "paged_adamw_8bit" or s.capacity_source == "device",
         "paged_adamw_8bit uses managed memory and runs only with capacity_source=device; use adamw_8bit"),
        (s.optimizer != "paged_adamw_8bit" or not s.optimizer_offload,
         "optimizer_offload=true has nothing to move with paged_adamw_8bit, whose state pages itself; use adamw_8bit"),
        (s.kv_reservation is None or _is_fraction(s.kv_reservation),
         f"kv_reservation={s.kv_reservation!r} is not a decimal in (0, 1]"),
        (s.algorithm != "grpo" or s.rollout_n > 1, "grpo needs rollout_n >= 2 to normalise within a group"),
        (s.gpu_count == 1, "gpu_count > 1 is not supported yet"),
    ]  # fmt: skip
    return [text for holds, text in rules if not holds]


def _is_fraction(text: str) -> bool:
    try:
        return decimal_string(text) == text and 0 < float(text) <= 1
    except ValueError:
        return False


def resolve(**given: object) -> Settings:
    """A checked Settings from what a user wrote: aliases, defaults and 'auto' filled in. Raises SettingsError.

    Unset micro-batches follow actor_micro_batch; unset lengths come from the workload; the reference follows
    use_kl and the adaptation; settings that do not apply become None whatever their default.
    """
    values = {ALIASES.get(k, k): v for k, v in given.items() if v != "auto"}
    unknown = sorted(set(values) - set(FIELD_NAMES))
    if unknown:
        raise SettingsError(f"settings {', '.join(unknown)}", found="unknown", expected=", ".join(FIELD_NAMES))
    values["model_id"] = get_model(str(values.get("model_id") or "Qwen/Qwen3-0.6B")).model_id
    if values.get("teacher_id"):
        values["teacher_id"] = get_model(str(values["teacher_id"])).model_id
    workload = values.setdefault("workload", "short")
    values = {**_DEFAULTS, **WORKLOADS.get(str(workload), {}), **values}
    if workload in WORKLOADS and any(values[k] != v for k, v in WORKLOADS[str(workload)].items()):
        values["workload"] = "custom"
    _fill_dependent(values)
    if values["kv_reservation"] is not None:
        try:
            values["kv_reservation"] = decimal_string(values["kv_reservation"])
        except ValueError as error:
            raise SettingsError("kv_reservation", found=str(error), expected="a decimal in (0, 1]") from None
    return Settings(**values)


# The short workload's lengths stand here too, for workload=custom with some of them unset.
_DEFAULTS: dict[str, object] = dict(
    **WORKLOADS["short"], teacher_id=None, algorithm="grpo", adaptation="lora", lora_rank=8, lora_alpha=None,
    lora_targets="all_linear", adapter_dtype="float32", quantization="none", optimizer="adamw", dtype="bfloat16",
    gradient_checkpointing=True, logits_chunk=0, use_kl=None, reference=None, actor_micro_batch=1,
    rollout_logprob_micro_batch=None, ref_logprob_micro_batch=None, critic_micro_batch=None, teacher_micro_batch=None,
    padding="mask", kv_reservation=None, free_cache_engine=True, rollout_weights=None, parameter_offload=False,
    optimizer_offload=False, empty_cache=False, total_training_steps=2, decode_coverage="full", checkpoint_every=0,
    deterministic=False, gpu_count=1, capacity_mib=None, capacity_source=None, attn_implementation="sdpa",
    allocator="default", rollout_engine="cuda_graph", capture_micro_batches=False, micro_batch_coverage="full",
)  # fmt: skip


def _fill_dependent(v: dict) -> None:
    lora, opd = v["adaptation"] == "lora", v["algorithm"] == "opd"
    if not lora:
        v.update(lora_rank=None, lora_alpha=None, lora_targets=None, adapter_dtype=None)
    elif v["lora_alpha"] is None and isinstance(v["lora_rank"], int):
        v["lora_alpha"] = 2 * v["lora_rank"]
    if v["use_kl"] is None:
        v["use_kl"] = not opd and v["reference"] != "none"
    if v["reference"] is None:
        v["reference"] = ("adapter_off" if lora else "copy") if v["use_kl"] else "none"
    wanted = {"rollout_logprob_micro_batch": not opd, "ref_logprob_micro_batch": v["reference"] != "none",
              "critic_micro_batch": v["algorithm"] == "ppo", "teacher_micro_batch": opd}  # fmt: skip
    for name, applies in wanted.items():
        if not applies:
            v[name] = None
        elif v[name] is None:
            v[name] = v["actor_micro_batch"]
    if v["rollout_weights"] is None:
        v["rollout_weights"] = "copy" if v["rollout_engine"] == "vllm" else "shared"
    if v["rollout_engine"] == "hf_generate":
        v.update(kv_reservation=None, free_cache_engine=None)
    if v["capacity_source"] is None:
        v["capacity_source"] = "device" if v["capacity_mib"] is None else "emulated"
