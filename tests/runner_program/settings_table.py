"""The effect of every setting on one small trial, by the bytes it should have: one row or more for each.

A new setting needs a row here, or a test of its own in `test_settings_effects.py`, where it is listed.
"""

import hashlib
import json
from dataclasses import replace

from fitproof.schema.models import catalogue
from fitproof.schema.workloads import WORKLOADS
from fitproof.simulate.profile import load_profile
from program_cases import TINY
from settings_effects import ABSENT, ANY, CLOSE, OTHER, RESERVED, Effect

P, R, PROMPTS, GROUP, MICRO = 16, 10, 4, 2, 2
N, T = PROMPTS * GROUP, P + R
BASE = dict(model=TINY[0], workload="custom", max_prompt_length=P, max_response_length=R, train_batch_size=PROMPTS,
            rollout_n=GROUP, max_num_seqs=N, actor_micro_batch=MICRO)  # fmt: skip

# The tiny Qwen3: 512 words, width 64, 4 query and 2 key/value heads of 16, MLP 128, 2 layers, head tied.
LAYERS, HEAD, GROUPS, BF16, F32, INT = 2, 16, 2, 2, 4, 8
SHAPES = {"attention": ((64, 64), (64, 32), (64, 32), (64, 64)), "mlp": ((64, 128), (64, 128), (128, 64))}
_LAYER = sum(i * o for shapes in SHAPES.values() for i, o in shapes) + 2 * 64 + 2 * HEAD
PARAMETERS = 512 * 64 + LAYERS * _LAYER + 64
ROTARY = 2 * 8 * F32  # a model's two tables of inverse frequencies: buffers, no parameters
MODEL = PARAMETERS * BF16 + ROTARY
PER_TOKEN = 2 * LAYERS * GROUPS * HEAD * BF16  # of the KV pool


def lora(rank: int, *targets: str) -> int:
    return LAYERS * rank * sum(i + o for t in targets for i, o in SHAPES[t])


ADAPTER = lora(8, "attention", "mlp")

ORDER = ("rollout", "rollout_logprob", "reference_logprob", "reward", "actor_update")
STAGES = [("initializing", 0), *((name, step) for step in (1, 2) for name in ORDER)]


def since(name: str, step: int, nbytes: int) -> dict:
    """From the end of this stage on."""
    return dict.fromkeys(STAGES[STAGES.index((name, step)) :], nbytes)


def until_the_step_ends(name: str, nbytes: int) -> dict:
    return {(n, step): nbytes for step in (1, 2) for n in ORDER[ORDER.index(name) :]}


def during(nbytes: int, *names: str) -> dict:
    return {(n, step): nbytes for step in (1, 2) for n in names}


def total(*parts: dict) -> dict:
    return {s: sum(part.get(s, 0) for part in parts) for part in parts for s in part}


# Bytes of one step's tensors, for one sequence more: prompt ids and their padding, the whole sequence, and what each
# of the old policy's and the reference's passes, and the reward, leave behind.
PROMPT, SEQUENCE, LOGPROBS, ADVANTAGE = P * (INT + 1), T * INT, R * F32, F32
LLAMA = 2 * 384 * 48 + 3 * (2 * 48 * 48 + 2 * 48 * 16 + 3 * 48 * 96 + 2 * 48) + 48
LLAMA_ADAPTER = 3 * 8 * (2 * (48 + 48) + 2 * (48 + 16) + 3 * (48 + 96))
CRITIC = PARAMETERS + 64  # tied embeddings, and a head of one row
WORKSPACE = load_profile("h200").cublas_workspace_bytes
MIB = 2**20
GENERATOR = 16  # seed and offset that captured random numbers come from

# What a resident engine keeps beside the pool: its sequences and counters, rotary tables, and the adapter's copy, in
# which projections of one input share a block-diagonal matrix B.
_WAVE = N * T * INT + 3 * N * INT + INT + T * INT + 2 * T * HEAD * BF16 + HEAD * INT + GENERATOR
_DECODER_ADAPTER = LAYERS * BF16 * (24 * (64 + 128) + 8 * (64 + 64) + 16 * (64 + 256) + 8 * (128 + 64))

# What captured micro-batches of one sequence keep: their inputs, and the result of scoring.
_SCORING_BUFFERS = T * INT + P + R * F32
_UPDATE_BUFFERS = T * INT + P + 2 * R * F32 + ADVANTAGE

_SAME = catalogue()[TINY[0]]
DEEPER = replace(_SAME, model_id="fitproof/tiny-deeper", config={**_SAME.config, "num_hidden_layers": LAYERS + 1})
WORDY = replace(_SAME, model_id="fitproof/tiny-wordy", config={**_SAME.config, "vocab_size": 8192})


def shift_of_adapter(parameters: int, width: int = F32) -> dict:
    """So many trainable parameters more: the adapter, and after the first update two states of Adam for each."""
    return total(since("initializing", 0, parameters * width), since("actor_update", 1, 2 * parameters * width))


def paged_pool(sequences: int) -> int:
    """Bytes of hf_paged's pool in float32: a block of 256 positions for each sequence, and two of the library's own."""
    return (sequences + 2) * 256 * PER_TOKEN * F32 // BF16


FORWARD = ("rollout", "rollout_logprob", "reference_logprob", "actor_update")

EFFECTS = [
    # The models
    Effect(
        change=dict(model_id=TINY[1]),
        facts=dict(parameters=LLAMA + LLAMA_ADAPTER, trainable_parameters=LLAMA_ADAPTER,
                   adapter_bytes=LLAMA_ADAPTER * F32, kv_pool_bytes=N * T * 2 * 3 * 1 * 16 * BF16),
        live=total(since("initializing", 0, (LLAMA - PARAMETERS) * BF16), shift_of_adapter(LLAMA_ADAPTER - ADAPTER)),
        peak=dict.fromkeys(("initializing", *ORDER), ANY), rollouts=OTHER, result=OTHER,
    ),
    Effect(
        change=dict(reference="copy"), live=since("initializing", 0, MODEL), peak=dict(initializing="+"),
    ),
    Effect(
        change=dict(rollout_weights="copy"), stages=({"weight_sync"}, set()),
        # Merging the adapter is a product: cuBLAS takes its workspace in the first stage. The copy decodes without an
        # adapter, so the peak of a rollout grows by less.
        live={**since("initializing", 0, MODEL), ("initializing", 0): MODEL + WORKSPACE},
        peak=dict(initializing="+", rollout="+"),
    ),
    Effect(
        change=dict(adaptation="full"), on=dict(reference="copy"),
        facts=dict(parameters=PARAMETERS, trainable_parameters=PARAMETERS, adapter_bytes=ABSENT),
        live=total(since("initializing", 0, -ADAPTER * F32),
                   since("actor_update", 1, 2 * (PARAMETERS * BF16 - ADAPTER * F32))),
        peak={("rollout", 1): "-", ("rollout", 2): "+", ("rollout_logprob", 1): "-", ("rollout_logprob", 2): "+",
              "actor_update": "+"},
        rollouts=ANY, result=OTHER,
    ),
    Effect(
        change=dict(lora_rank=16), on=dict(lora_alpha=16),
        facts=dict(parameters=PARAMETERS + 2 * ADAPTER, trainable_parameters=2 * ADAPTER,
                   adapter_bytes=2 * ADAPTER * F32),
        live=shift_of_adapter(ADAPTER), peak=dict(initializing="+", rollout="+", actor_update="+"),
        rollouts=ANY, result=OTHER,
    ),
    Effect(change=dict(lora_alpha=64), has_same_events=True, rollouts=ANY, result=OTHER),
    Effect(
        change=dict(lora_targets="attention"),
        facts=dict(parameters=PARAMETERS + lora(8, "attention"), trainable_parameters=lora(8, "attention"),
                   adapter_bytes=lora(8, "attention") * F32),
        live=shift_of_adapter(-lora(8, "mlp")), peak=dict(rollout="-", rollout_logprob="-", actor_update="-"),
        rollouts=ANY, result=OTHER,
    ),
    *(
        Effect(
            change=dict(adapter_dtype=dtype), facts=dict(adapter_bytes=ADAPTER * BF16),
            live=shift_of_adapter(-ADAPTER, F32 - BF16),
            peak=dict(initializing="-", rollout="-", rollout_logprob="-", actor_update="-"),
            rollouts=ANY, result=OTHER,
        )
        for dtype in ("bfloat16", "float16")
    ),
    Effect(
        change=dict(dtype="float32"), on=dict(dtype="bfloat16"), facts=dict(kv_pool_bytes=N * T * PER_TOKEN * 2),
        live=since("initializing", 0, PARAMETERS * (F32 - BF16)),
        peak=dict(initializing="+", rollout="+", rollout_logprob="+", reference_logprob="+", actor_update="+"),
        rollouts=ANY, result=OTHER,
    ),
    Effect(
        change=dict(dtype="float16"), on=dict(dtype="bfloat16"), has_same_events=True, rollouts=ANY, result=OTHER
    ),
    # The algorithm
    Effect(
        change=dict(algorithm="ppo"), stages=({"critic_update"}, set()), facts=dict(critic_parameters=CRITIC),
        # All of the critic is trained; values, advantages and returns [N, R] live until the step ends.
        live=total(since("initializing", 0, CRITIC * BF16 + ROTARY), since("actor_update", 1, 2 * CRITIC * BF16),
                   during(N * 3 * R * F32, "actor_update")),
        peak=dict(initializing="+"), result=OTHER,
    ),
    Effect(
        change=dict(algorithm="opd", teacher_id=TINY[0]),
        stages=({"teacher_scoring"}, {"rollout_logprob", "reference_logprob", "reward"}),
        facts=dict(parameters=PARAMETERS + 2 * ADAPTER, teacher_cache_bytes=N * R * 32 * (F32 + INT)),
        live=total(since("initializing", 0, ADAPTER * F32),
                   during(N * (R * 32 * (F32 + INT) - 2 * LOGPROBS - ADVANTAGE), "actor_update")),
        peak=dict(initializing="+", actor_update="+"), result=OTHER,
    ),
    Effect(
        change=dict(teacher_id=DEEPER.model_id), on=dict(algorithm="opd", teacher_id=TINY[0]),
        facts=dict(parameters=PARAMETERS + ADAPTER, teacher_parameters=PARAMETERS + _LAYER),
        live=dict.fromkeys([*STAGES, ("teacher_scoring", 1), ("teacher_scoring", 2)],
                           MODEL + _LAYER * BF16 - ADAPTER * F32),
        peak=dict(initializing="+", teacher_scoring="+"),
        result=OTHER,
    ),
    Effect(
        change=dict(use_kl=False), stages=(set(), {"reference_logprob"}),
        live=during(-N * LOGPROBS, "reward", "actor_update"), result=OTHER,
    ),
    # Shapes
    *(
        Effect(
            change=change,
            live=total(until_the_step_ends("rollout", N * (PROMPT + SEQUENCE)),
                       until_the_step_ends("rollout_logprob", N * LOGPROBS),
                       until_the_step_ends("reference_logprob", N * LOGPROBS),
                       until_the_step_ends("reward", N * ADVANTAGE)),
            # Waves are as large as before: a second one begins when the first has taken cuBLAS's workspaces.
            peak=dict(rollout="+", reward="+"), rollouts=OTHER, result=OTHER,
        )
        for change in (dict(train_batch_size=2 * PROMPTS), dict(rollout_n=2 * GROUP))
    ),
    Effect(
        change=dict(max_prompt_length=2 * P), facts=dict(kv_pool_bytes=N * (T + P) * PER_TOKEN),
        live=until_the_step_ends("rollout", N * P * (INT + 1 + INT)), peak=dict.fromkeys(FORWARD, "+"),
        rollouts=OTHER, result=OTHER,
    ),
    Effect(
        change=dict(max_response_length=2 * R), facts=dict(kv_pool_bytes=N * (T + R) * PER_TOKEN),
        live=total(until_the_step_ends("rollout", N * R * INT), until_the_step_ends("rollout_logprob", N * LOGPROBS),
                   until_the_step_ends("reference_logprob", N * LOGPROBS)),
        peak=dict.fromkeys((*FORWARD, "reward"), "+"), rollouts=OTHER, result=OTHER,
    ),
    Effect(
        change=dict(padding="none"),
        peak={("rollout", 2): "-", "rollout_logprob": "-", "actor_update": "-"}, rollouts=OTHER, result=OTHER,
    ),
    # Micro-batches
    Effect(
        change=dict(actor_micro_batch=4), on=dict(rollout_logprob_micro_batch=2, ref_logprob_micro_batch=2),
        peak=dict(actor_update="+"), result=CLOSE, fewer="micro_batch",
    ),
    Effect(
        change=dict(rollout_logprob_micro_batch=4), peak=dict(rollout_logprob="+"), result=CLOSE, fewer="micro_batch"
    ),
    Effect(
        change=dict(ref_logprob_micro_batch=4), peak=dict(reference_logprob="+"), result=CLOSE, fewer="micro_batch"
    ),
    Effect(
        change=dict(critic_micro_batch=4), on=dict(algorithm="ppo"), peak={("critic_update", 2): "+"},
        result=CLOSE, fewer="micro_batch",
    ),
    Effect(
        change=dict(teacher_micro_batch=4), on=dict(algorithm="opd", teacher_id=TINY[0]),
        peak=dict(teacher_scoring="+"), result=CLOSE, fewer="micro_batch",
    ),
    # Remedies: less memory, or less time, and the same training
    Effect(change=dict(gradient_checkpointing=False), peak=dict(actor_update="+")),
    Effect(
        change=dict(logits_chunk=5),
        on=dict(model_id=WORDY.model_id),
        peak=dict(rollout_logprob="-", reference_logprob="-", actor_update="-"),
        result=CLOSE,
    ),
    Effect(
        change=dict(attn_implementation="eager"),
        peak={("rollout", 2): "+", "rollout_logprob": "+", "reference_logprob": "+", "actor_update": "+"},
        result=CLOSE,
    ),
    Effect(
        # Parameters leave inside the first stage that does not need them: its peak keeps them.
        change=dict(parameter_offload=True), live=during(-(PARAMETERS * BF16 + ADAPTER * F32), "reward"),
        peak=dict(reward="-"),
    ),
    Effect(
        change=dict(parameter_offload=True), on=dict(reference="copy", rollout_weights="copy"),
        live=total(during(-PARAMETERS * BF16, *ORDER, "weight_sync"),  # at least one of the three is away
                   during(-(PARAMETERS * BF16 + ADAPTER * F32), "rollout", "reference_logprob", "reward"),
                   during(-PARAMETERS * BF16, "rollout_logprob", "reward", "actor_update")),
        peak={("rollout", 2): "-", "reward": "-"},
    ),
    Effect(
        change=dict(optimizer_offload=True), live={(name, 2): -2 * ADAPTER * F32 for name in ORDER[:-1]},
    ),
    Effect(
        change=dict(empty_cache=True), on=dict(actor_micro_batch=8, max_response_length=70),
        reserved={("reward", 1): "-", ("reward", 2): "-"},
    ),
    Effect(
        change=dict(capture_micro_batches=True), on=dict(actor_micro_batch=1),
        # Buffers of the graphs stay, and the gradients, to which a graph adds where they are.
        live=total(since("rollout_logprob", 1, _SCORING_BUFFERS + GENERATOR),
                   since("reference_logprob", 1, _SCORING_BUFFERS),
                   since("actor_update", 1, _UPDATE_BUFFERS + ADAPTER * F32)),
        peak={("rollout_logprob", 1): "-", ("rollout_logprob", 2): "+", "reference_logprob": "+",
              ("actor_update", 1): "+", ("actor_update", 2): "-"},
        reserved=dict.fromkeys(STAGES[2:], "+"),
        fewer="micro_batch",
    ),
    Effect(
        # Updates of two micro-batches are not captured: no workspace for a backward pass, no gradients that stay.
        change=dict(capture_micro_batches=True),
        on=dict(actor_micro_batch=4, rollout_logprob_micro_batch=1, ref_logprob_micro_batch=1),
        live=total(since("rollout_logprob", 1, _SCORING_BUFFERS + GENERATOR),
                   since("reference_logprob", 1, _SCORING_BUFFERS)),
        peak={"rollout_logprob": "-", ("reference_logprob", 1): "+", ("reference_logprob", 2): "-"},
        reserved=dict.fromkeys(STAGES[2:], "+"),
        fewer="micro_batch",
    ),
    Effect(
        # Graphs go after each pass, when parameters move.
        change=dict(capture_micro_batches=True), on=dict(actor_micro_batch=1, parameter_offload=True),
        peak={"rollout_logprob": "-", "reference_logprob": "-", ("actor_update", 2): "+"},
        fewer="micro_batch",
    ),
    Effect(
        change=dict(micro_batch_coverage="edges"), on=dict(actor_micro_batch=1), result=OTHER, fewer="micro_batch",
    ),
    Effect(
        change=dict(decode_coverage="edges"), on=dict(max_response_length=40), has_same_events=True,
        rollouts=OTHER, result=OTHER, fewer="decode",
    ),
    # The rollout engine
    Effect(
        change=dict(rollout_engine="hf_generate"), is_dry=False, is_greedy=True,
        facts=dict(kv_pool_bytes=ABSENT, wave_sequences=ABSENT, decode_buckets=ABSENT), fewer="decode",
    ),
    Effect(
        change=dict(rollout_engine="hf_paged"), is_dry=False, is_greedy=True,
        facts=dict(kv_pool_bytes=paged_pool(N), decode_buckets=ABSENT), fewer="decode",
    ),
    Effect(
        change=dict(max_num_seqs=N // 2), on=dict(rollout_engine="hf_paged"), is_dry=False, is_greedy=True,
        facts=dict(kv_pool_bytes=paged_pool(N // 2), wave_sequences=N // 2),
    ),
    Effect(change=dict(free_cache_engine=False), on=dict(rollout_engine="hf_paged"), is_dry=False),
    Effect(
        change=dict(max_num_seqs=N // 2), is_greedy=True,
        facts=dict(kv_pool_bytes=N // 2 * T * PER_TOKEN, wave_sequences=N // 2),
        # In the first step a second wave begins when the first has taken cuBLAS's workspaces.
        peak={("rollout", 1): "+", ("rollout", 2): "-"},
    ),
    Effect(
        change=dict(kv_reservation="0.5"), on=dict(capacity_mib=64),
        facts=dict(kv_pool_bytes=32 * MIB - RESERVED), peak=dict(rollout="+"),
    ),
    Effect(
        change=dict(kv_reservation="0.0317"), on=dict(capacity_mib=64), is_greedy=True,
        facts=dict(kv_pool_bytes=(64 * MIB * 317 // 10_000 - RESERVED) // PER_TOKEN * PER_TOKEN,
                   wave_sequences=4),
        peak={("rollout", 1): "+", ("rollout", 2): "-"},
    ),
    Effect(
        change=dict(free_cache_engine=False),
        live=since("rollout", 1, N * T * PER_TOKEN + _WAVE + _DECODER_ADAPTER),
        peak={("rollout", 1): 0, ("rollout", 2): GENERATOR},
        reserved=dict.fromkeys(STAGES[1:], "+"),
    ),
    # The allocator and the card: the program is the same
    Effect(
        change=dict(allocator="expandable_segments"), has_same_events=True,
        reserved=dict.fromkeys(STAGES[1:], "+"),
    ),
    Effect(change=dict(capacity_mib=64), has_same_events=True),
    Effect(change=dict(capacity_source="device"), on=dict(capacity_mib=64), has_same_events=True),
    Effect(
        change=dict(deterministic=True), has_same_events=True,
        facts=dict(rollout_sha256=hashlib.sha256(json.dumps([[0] * T] * N).encode()).hexdigest()),
    ),
    Effect(
        change=dict(workload="short"), on=WORKLOADS["short"] | dict(total_training_steps=1), has_same_events=True
    ),
]  # fmt: skip
