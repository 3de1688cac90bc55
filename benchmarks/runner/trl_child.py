"""GRPO steps by TRL's GRPOTrainer: `python -m benchmarks.runner.trl_child MATERIALS OUT --settings JSON`.

The same weights, prompts, batch, micro-batch, KL weight and lengths as ours. Prints one JSON object.
"""

import argparse
import json
import time
from pathlib import Path

from .materials import STUDENT


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("materials", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--settings", type=json.loads, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--paged", action="store_true", help="transformers' continuous batching")
    args = parser.parse_args()
    s = args.settings
    import torch
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    class Steps(TrainerCallback):
        def __init__(self) -> None:
            self.seconds, self._begun = [], 0.0

        def on_step_begin(self, *_: object, **__: object) -> None:
            self._begun = time.perf_counter()

        def on_step_end(self, *_: object, **__: object) -> None:
            if args.device == "cuda":
                torch.cuda.synchronize()
            self.seconds.append(time.perf_counter() - self._begun)

    def digits_and_spaces(completions: list[str], **_: object) -> list[float]:
        return [sum(c.isdigit() or c == " " for c in text) / max(1, len(text)) for text in completions]

    texts = json.loads((args.materials / "prompts.json").read_text(encoding="utf-8"))
    sequences, micro_batch = s["train_batch_size"] * s["rollout_n"], s["actor_micro_batch"]
    micro_batch = min(micro_batch, sequences)
    config = GRPOConfig(
        output_dir=str(args.out),
        per_device_train_batch_size=micro_batch,
        gradient_accumulation_steps=sequences // micro_batch,
        num_generations=s["rollout_n"],
        max_completion_length=s["max_response_length"],
        generation_kwargs={"min_new_tokens": s["max_response_length"]},
        temperature=1.0,
        beta=0.04,
        learning_rate=1e-5,
        gradient_checkpointing=s["gradient_checkpointing"],
        max_steps=s["total_training_steps"],
        bf16=s["dtype"] == "bfloat16",
        use_cpu=args.device == "cpu",
        shuffle_dataset=False,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        seed=0,
        **({"use_transformers_continuous_batching": True} if args.paged else {}),
    )
    steps = Steps()
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(args.materials / STUDENT, dtype=getattr(torch, s["dtype"])),
        reward_funcs=digits_and_spaces,
        args=config,
        train_dataset=Dataset.from_dict({"prompt": texts}),
        processing_class=AutoTokenizer.from_pretrained(args.materials / STUDENT),
        callbacks=[steps],
        peft_config=LoraConfig(
            r=s["lora_rank"], lora_alpha=s["lora_alpha"], task_type="CAUSAL_LM",
            target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
        ),
    )  # fmt: skip
    trainer.train()
    reserved = torch.cuda.max_memory_reserved() if args.device == "cuda" else None
    print(json.dumps({"step_seconds": steps.seconds, "peak_reserved_bytes": reserved, "micro_batch": micro_batch}))


if __name__ == "__main__":
    main()
