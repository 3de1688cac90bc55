"""Wordings around an error that change what it means: noise, doubt, rescue, surrender, places, stages."""

import re


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.I)


# Lines that speak of memory and are no event: counters, advice, an allocator at work, guesses about other causes.
NOISE = _any(
    r"not (?:be )?(?:a |an )?(?:failure|issue|fatal)",
    r"is not considered",
    r"potential root causes|\bcauses (?:include|are|may|might)\b|\(1\) the process (?:is|was) killed",
    r"pytorch allocator cache flushes",
    r"\b(?:num_)?ooms?(?:[ _-]?(?:count|kill|total))?s?[\"']?\s*[=:]\s*0\b",
    r"\boom_kill(?:ed)?[\"']?[\s:=]+(?:0|false)\b",
    r"OOMKilled[\"']?\s*[:=]\s*false",
    r"out[ -]of[ -]memory (?:errors|issues|problems)\b",
    r"\bis preempted by\b|retract(?:ed)?[ _]req(?:uest)?s?|decode out of memory happened",
    r"memory[_ ]format|no available shared memory broadcast|large alloc|local disk's utilization",
    r"\b0 workers \(tasks",
    r"Search for `\w+' in",
)
# The clause before the words makes them a condition, a guess or advice.
HEDGE = re.compile(
    r"\b(?:if|when(?:ever)? (?:you|the|there|running|it)|in case|unless|to (?:avoid|prevent|reduce|fix)|avoids?"
    r"|prevents?|possibl[ey]|potential(?:ly)?|(?:may|might|could|can)(?! ?not)|probably|perhaps|likely|such as|e\.g\."
    r"|risk(?:s|ing)?|usually|often|typically|without)\b[^.;]*$",
    re.I,
)
# The program says that it goes on (and does not advise its reader to) ...
HANDLED = re.compile(
    r"(?<!try )(?<!by )(?<!or )(?<!and )(?<!consider )(?<!for )(?<!of )(?<!recommend )(?<!before )\b(?:retrying"
    r"|will retry|skipp(?:ing|ed)|falling back|fallback to|reducing|decreas(?:ing|ed)|halv(?:ing|ed)|lowering"
    r"|downshift(?:ing|ed)?|recover(?:ed|ing)|continuing|ignor(?:ing|ed)|splitting|emptying cache|cache cleared"
    r"|clearing cache|trying (?:again|with|smaller)|attempting to recover|rescheduling"
    r"|dropping (?:batch|sample|micro))\b",
    re.I,
)
# ... and here that it does not.
GIVES_UP = _any(
    r"\b(?:giving up|gave up|no more retries|max(?:imum)? (?:number of )?retries|retries exhausted|abort(?:ing|ed)?)\b",
    r"\b(?:cannot recover|could not recover|unrecoverable)\b",
    r"\battempt (\d+)\s*(?:/|of)\s*\1\b",
)
# Frames and C++ symbols of pinned (page-locked) host allocations.
PINNING = _any(
    r"pin_memory\b|pinned|pin memory thread|HostAllocator|CUDA host alloc|_cpu_memory\b|cuMemHostAlloc",
    r"cudaHostAlloc|cudaMallocHost|cudaHostRegister|hipHostMalloc|hipHostRegister",
)
# A library handle that cannot be created means a full device, unless the context was already broken or the libraries
# do not fit each other.
BROKEN_CONTEXT = _any(
    r"device-side assert|Assertion `[^`]{1,200}` failed|indexSelect|illegal memory access|Xid \(",
    r"driver version is insufficient|no kernel image|libcublas\S* version|version mismatch",
)

# Which files make a plain KeyError, ValueError or IndexError one of the data.
DATA_FRAMES = _any(
    r"data(?:set|loader|_utils|_loader)?[s_/.\w]*\.py",
    r"reward|verif|tokeniz|collat|/datasets/|preprocess|ground_truth|math_utils|parse",
)
DATA_TYPES = ("KeyError", "ValueError", "IndexError", "TypeError", "AssertionError", "StopIteration", "LookupError")

# Stages by names of functions and files around the failure, the specific ones first.
STAGE_HINTS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "weight_sync",
        _any(
            r"wake_up|resume_memory_occupation|sync_(?:model_)?weights|update_weights|weight_sync|load_weights_from",
            r"broadcast_to_vllm|update_named_param|__enter__.{0,200}sharding_manager",
        ),
    ),
    ("teacher_scoring", _any(r"teacher|distill")),
    (
        "reference_logprob",
        _any(r"compute_ref_log_prob|ref_compute|RefModel|ref_log_?prob|ref_per_token|reference_model"),
    ),
    ("critic_update", _any(r"critic|value_model|update_values")),
    (
        "rollout_logprob",
        _any(r"compute_log_prob|_get_per_token_logps|calculate_log_probs|old_log_prob|log_probs_from_logits"),
    ),
    (
        "checkpoint",
        _any(r"save_checkpoint|save_ckpt|state_dict\(|save_pretrained|serialization\.py|save_model|torch\.save"),
    ),
    ("reward", _any(r"reward")),
    ("validation", _any(r"evaluate\b|validation|eval_step|evaluation_loop|prediction_step|_validate\b")),
    (
        "actor_update",
        _any(
            r"backward|optimizer|update_policy|update_actor|train_step|training_step|compute_loss|scaled_loss",
        ),
    ),
    ("rollout", _any(r"generate|rollout|execute_model|sampler|decode")),
    (
        "initializing",
        _any(
            r"__init__|from_pretrained|load_model|init_engine|check_enough_kv|kv_cache_utils|cache blocks|capture",
            r"on startup is less than|profile_run|initialize|warming up",
        ),
    ),
)
