"""Rollout calls of one engine: `python -m benchmarks.runner.decode_child ours|generate|compiled SHAPES [--tiny]`.

SHAPES is JSON, [[batch, new tokens], ...]; prompts have 128 tokens. Each shape is called three times and the second
call counts: kernels are loaded, and the pool and graphs of ours, released after each call, are made anew. Set-up is
what that costs beside a call with them resident. Prints one JSON object.
"""

import argparse
import json
import time

import torch
from fitproof.runner.program.engines.cuda_graph import CudaGraphEngine
from fitproof.runner.program.engines.hf_generate import HfGenerate
from fitproof.runner.program.models import LanguageModel, build_actor
from fitproof.runner.program.recorder import CpuMeter, CudaMeter, Recorder
from fitproof.runner.program.sequences import make_prompts
from fitproof.schema.settings import Settings, resolve
from transformers import GenerationConfig

CALLS = 3
SECOND = 1


def settings(tiny: bool, batch: int, new: int, *, released: bool = True) -> Settings:
    model = dict(model="fitproof/tiny-qwen3", dtype="float32", max_prompt_length=32) if tiny else \
        dict(model="Qwen/Qwen3-0.6B", max_prompt_length=128)  # fmt: skip
    return resolve(**model, workload="custom", adaptation="full", max_response_length=new, train_batch_size=batch // 2,
                   rollout_n=2, max_num_seqs=batch, free_cache_engine=released)  # fmt: skip


def calls(rollout, s: Settings, vocabulary: int, device: torch.device) -> list[float]:
    """Seconds of each call, on new prompts each time."""
    seconds = []
    for number in range(1, CALLS + 1):
        prompts = make_prompts(s, vocabulary, 0, number, device)
        _synchronize(device)
        begun = time.perf_counter()
        rollout(prompts)
        _synchronize(device)
        seconds.append(time.perf_counter() - begun)
    return seconds


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def compiled(model: LanguageModel, s: Settings):
    """generate with a static cache, which transformers compiles; the first call pays for that."""
    config = GenerationConfig(max_new_tokens=s.max_response_length, do_sample=True, temperature=1.0, top_k=0, top_p=1.0,
                              pad_token_id=0, cache_implementation="static")  # fmt: skip

    def rollout(prompts):
        model.causal.eval()
        with torch.no_grad():
            return model.causal.generate(
                input_ids=prompts.ids, attention_mask=prompts.keep.long(), generation_config=config
            )

    return rollout


def measure(who: str, tiny: bool, batch: int, new: int, device: torch.device) -> dict:
    s = settings(tiny, batch, new)
    actor = build_actor(s, 0, device)
    vocabulary = actor.config.vocab_size
    row = {"batch": batch, "new_tokens": new}
    if who == "ours":
        meter = CudaMeter(device) if device.type == "cuda" else CpuMeter()
        recorder = Recorder(None, meter)
        resident = settings(tiny, batch, new, released=False)
        kept = calls(CudaGraphEngine(actor, resident, device, recorder).rollout, resident, vocabulary, device)
        row["call_seconds"] = calls(CudaGraphEngine(actor, s, device, recorder).rollout, s, vocabulary, device)
        row["resident_call_seconds"] = kept
        row["set_up_seconds"] = max(0.0, row["call_seconds"][SECOND] - kept[SECOND])
    else:
        rollout = HfGenerate(actor, s, device).rollout if who == "generate" else compiled(actor, s)
        row["call_seconds"] = calls(rollout, s, vocabulary, device)
    row["tokens_per_second"] = batch * new / row["call_seconds"][SECOND]
    if device.type == "cuda":
        row["peak_reserved_bytes"] = torch.cuda.max_memory_reserved()
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.empty_cache()
    return row


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("who", choices=("ours", "generate", "compiled"))
    parser.add_argument("shapes", type=json.loads)
    parser.add_argument("--tiny", action="store_true")
    args = parser.parse_args()
    device = torch.device("cpu") if args.tiny else torch.device("cuda", 0)
    rows = [measure(args.who, args.tiny, batch, new, device) for batch, new in args.shapes]
    print(json.dumps({"who": args.who, "torch": torch.__version__, "shapes": rows}))


if __name__ == "__main__":
    main()
