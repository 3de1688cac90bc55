"""Panels on what a user turns when memory is short: `offload`, `release`, `adaptation`.

Capacities are chosen from dry runs (`fitproof predict`) so that labels differ within a panel, and stand here before the
first trial. Peaks below are simulated device-used MiB; the operating limit is the capacity less 2,048 MiB.
"""

from collections.abc import Sequence

from ..plan import Panel
from .cells import SEEDS, cell_slots

_QWEN_SMALL, _QWEN, _SMOL, _GRANITE = (
    "Qwen/Qwen3-0.6B", "Qwen/Qwen3-1.7B", "HuggingFaceTB/SmolLM2-1.7B-Instruct", "ibm-granite/granite-3.3-2b-instruct",
)  # fmt: skip
_QWEN25 = "Qwen/Qwen2.5-1.5B-Instruct"


def offload(*, seeds: Sequence[int] = SEEDS) -> Panel:
    """Hardware: one NVIDIA GPU with more than 20 GiB; written for one H200.

    Parameter offload x optimizer offload, all parameters under training, micro-batch 4, workload short: Qwen3-0.6B at
    two capacities, SmolLM2-1.7B at one; three seeds.
    """
    given = dict(workload="short", adaptation="full", actor_micro_batch=4)
    places = ((_QWEN_SMALL, 7424), (_QWEN_SMALL, 9216), (_SMOL, 20480))
    cells = [
        dict(given, model_id=model, capacity_mib=capacity, parameter_offload=parameters, optimizer_offload=optimizer)
        for model, capacity in places
        for parameters in (False, True)
        for optimizer in (False, True)
    ]
    reason = (
        "What leaving the device between stages saves. Qwen3-0.6B needs 7,924 MiB, 6,776 with parameters offloaded: "
        "at 7,424 the one fails and the other completes, at 9,216 the other keeps the margin. SmolLM2-1.7B needs "
        "21,861 and 18,405; the limit of 20,480 is 18,432. Optimizer offload should move no peak: the update needs its "
        "state."
    )
    return Panel(name="offload", reason=reason, device_kind="cuda", slots=cell_slots(cells, seeds))


def release(*, seeds: Sequence[int] = SEEDS) -> Panel:
    """Hardware: one NVIDIA GPU with more than 10 GiB; written for one H200.

    KV pool released or resident x cache emptied between stages or not, LoRA r8, micro-batch 4, workload chat:
    Qwen2.5-1.5B and Granite-3.3-2B; three seeds.
    """
    cells = [
        dict(
            model_id=model,
            workload="chat",
            actor_micro_batch=4,
            capacity_mib=capacity,
            free_cache_engine=released,
            empty_cache=emptied,
        )
        for model, capacity in ((_QWEN25, 7680), (_GRANITE, 9728))
        for released in (False, True)
        for emptied in (False, True)
    ]
    reason = (
        "What giving pool and cache back between stages saves. Qwen2.5-1.5B: 6,750 to 6,800 MiB with the pool "
        "released; resident 7,609 at least with the cache kept (8,655 without retries), 7,801 with it emptied: one of "
        "the two should fail at 7,680. Granite-3.3-2B with a resident pool needs 9,806 and more: fails at 9,728."
    )
    return Panel(name="release", reason=reason, device_kind="cuda", slots=cell_slots(cells, seeds))


def adaptation(*, seeds: Sequence[int] = SEEDS) -> Panel:
    """Hardware: one NVIDIA GPU with more than 20 GiB; written for one H200.

    LoRA r8, r64 and all parameters, with and without KL, and nf4 under LoRA: Qwen3-1.7B, micro-batch 4, workload short,
    at 8 GiB; all parameters at 20 GiB too; three seeds.
    """
    given = dict(model_id=_QWEN, workload="short", actor_micro_batch=4)
    ways = (dict(lora_rank=8), dict(lora_rank=64), dict(lora_rank=8, quantization="nf4"),
            dict(lora_rank=64, quantization="nf4"), dict(adaptation="full"))  # fmt: skip
    cells = [dict(given, capacity_mib=8192, use_kl=use_kl, **way) for way in ways for use_kl in (True, False)]
    cells += [dict(given, capacity_mib=20480, use_kl=use_kl, adaptation="full") for use_kl in (True, False)]
    reason = (
        "What the way of adapting costs. Qwen3-1.7B: LoRA r8 5,007 MiB, r64 6,101 of a limit of 6,144 at 8,192; all "
        "parameters 17,458, with a reference copy for KL 20,720: at 20,480 one keeps the margin and the other fails. "
        "With LoRA the reference is the base without its adapter and should cost nothing."
    )
    return Panel(name="adaptation", reason=reason, device_kind="cuda", slots=cell_slots(cells, seeds))
