"""How fast the trial program is on a CUDA device, and what bounds it.

    python benchmarks/gpu_program.py        (needs a GPU; prints one line a figure)

1. Rollout by the cuda_graph engine, Qwen3-0.6B shape, bfloat16, prompts of 128: whole calls, tokens per second, with
   the pool released after each call (set-up included every time) and resident, with LoRA r8 on seven projections and
   without.
2. One update micro-batch of one sequence of 192 positions, LoRA r8, gradient checkpointing: wall seconds, seconds until
   the host has queued everything, kernel seconds on the device, kernel launches. Host near wall and kernels far below
   it means that launching bounds the update.
"""

import sys
import time

import torch
from fitproof.runner.program.engines.cuda_graph import CudaGraphEngine
from fitproof.runner.program.models import build_actor
from fitproof.runner.program.recorder import CudaMeter, Recorder
from fitproof.runner.program.scoring import token_logprobs
from fitproof.runner.program.sequences import make_prompts
from fitproof.schema.settings import resolve
from torch.profiler import ProfilerActivity, profile

MODEL = "Qwen/Qwen3-0.6B"
SHAPES = ((4, 64), (32, 128), (128, 256))  # (batch, new tokens)


def rollout(device: torch.device) -> None:
    for adaptation in ("lora", "full"):
        for batch, new in SHAPES:
            for released in (True, False):
                s = resolve(
                    model=MODEL, workload="custom", adaptation=adaptation, max_prompt_length=128,
                    max_response_length=new, train_batch_size=batch // 2, rollout_n=2, max_num_seqs=batch,
                    free_cache_engine=released,
                )  # fmt: skip
                actor = build_actor(s, 0, device)
                engine = CudaGraphEngine(actor, s, device, Recorder(None, CudaMeter(device)))
                for call in (1, 2, 3):
                    prompts = make_prompts(s, actor.config.vocab_size, 0, call, device)
                    torch.cuda.synchronize()
                    begun = time.perf_counter()
                    engine.rollout(prompts)
                    torch.cuda.synchronize()
                    seconds = time.perf_counter() - begun
                    pool = "released" if released else "resident"
                    print(f"rollout {adaptation} batch {batch} x {new} pool {pool} call {call}: "
                          f"{seconds:.3f} s, {batch * new / seconds:,.0f} tokens/s")  # fmt: skip
                del engine, actor
                torch.cuda.empty_cache()


def update(device: torch.device) -> None:
    s = resolve(model=MODEL, workload="short")
    actor = build_actor(s, 0, device)
    actor.causal.train()
    ids = torch.randint(0, 1000, (1, s.sequence_length), device=device)
    keep = torch.ones(1, s.max_prompt_length, dtype=torch.bool, device=device)

    def micro_batch() -> None:
        token_logprobs(actor, s, ids, keep).mean().backward()

    for _ in range(3):
        micro_batch()
    torch.cuda.synchronize()
    begun = time.perf_counter()
    micro_batch()
    queued = time.perf_counter() - begun
    torch.cuda.synchronize()
    wall = time.perf_counter() - begun
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as traced:
        micro_batch()
        torch.cuda.synchronize()
    rows = traced.key_averages()
    launches = sum(row.count for row in rows if "LaunchKernel" in row.key)
    kernels = sum(row.self_device_time_total for row in rows if str(row.device_type).endswith("CUDA")) / 1e6
    print(
        f"update micro-batch 1: wall {wall:.3f} s, host {queued:.3f} s, kernels {kernels:.3f} s, {launches:,} launches"
    )


if __name__ == "__main__":
    if not torch.cuda.is_available():
        sys.exit("needs a CUDA device")
    rollout(torch.device("cuda", 0))
    update(torch.device("cuda", 0))
