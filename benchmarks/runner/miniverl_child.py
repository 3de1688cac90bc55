"""The OPD workload by miniVERL 0.16.0 (installed beside, never copied): its trainer, its checkpoints, its resume.

    python -m benchmarks.runner.miniverl_child MATERIALS RUNS [--resume] --settings JSON

One process is one run: the first goes through, the second is killed by the caller once its checkpoint of the middle is
whole, the third resumes. Prints one JSON object.
"""

import argparse
import json
import time
from pathlib import Path

BEGUN = time.perf_counter()

from benchmarks.runner.materials import PROMPTS, STUDENT, TEACHER  # noqa: E402

RUN_ID = "opd"


def configuration(materials: Path, s: dict, device: str) -> dict:
    """The recipe in miniVERL's own terms. `s`: our settings of the workload."""
    quantization, dtype = s["quantization"], s["dtype"]
    model = {"dtype": dtype, "quantization": quantization, "attn_implementation": s["attn_implementation"]}
    positions = s["max_prompt_length"] + s["max_response_length"]
    return {
        "schema_version": 1,
        "run": {"name": RUN_ID, "mode": "opd", "seed": 0, "deterministic": True},
        "models": {
            "backend": "hf",
            "runtime": "dual_model",
            "device": device,
            "student": {
                "model_id": str(materials / STUDENT),
                **model,
                "gradient_checkpointing": s["gradient_checkpointing"],
                "lora": {
                    "enabled": True,
                    "r": s["lora_rank"],
                    "alpha": s["lora_alpha"],
                    "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj"],
                },
            },
            "teacher": {"model_id": str(materials / TEACHER), **model, "toy_pretrain_steps": 0},
        },
        "source": {
            "kind": "verl_parquet",
            "train_files": [str(materials / PROMPTS)],
            "max_prompt_length": s["max_prompt_length"],
            "max_response_length": s["max_response_length"],
            "shuffle": False,
        },
        "rollout": {
            "backend": "hf_cached",
            "max_turns": 1,
            "max_total_tokens": positions,
            "max_new_tokens_per_turn": s["max_response_length"],
            "prompt_batch_size": s["train_batch_size"],
            "max_padded_tokens": positions * s["train_batch_size"],
        },
        "selection": {"selector": "all_model_tokens"},
        "loss": {
            "mode": "forward_kl_topk",
            "aggregation": "token-mean",
            "divergence": "forward_kl",
            "scale_by_temperature_squared": False,
            "top_k": 32,
        },
        "train": {
            "cycles": s["total_training_steps"],
            "rollouts_per_cycle": s["train_batch_size"],
            "gradient_accumulation_steps": s["train_batch_size"],
            "trajectory_batch_size": s["actor_micro_batch"],
            "learning_rate": 1e-5,
            "save_every_cycles": s["checkpoint_every"],
        },
        "memory": {"strategy": "resident"},
        "eval": {"enabled": False, "baseline_enabled": False},
        "report": {"enabled": False},
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("materials", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--settings", type=json.loads, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--resume", action="store_true")
    args = parser.parse_args()
    from miniverl.config.models import RunConfig
    from miniverl.trainer import OPDTrainer

    loads = timed_loads(OPDTrainer)
    imported = time.perf_counter()
    config = RunConfig.model_validate(configuration(args.materials, args.settings, args.device))
    run = args.runs / RUN_ID
    given = {"resume": run} if args.resume else {"run_id": RUN_ID}
    trainer = OPDTrainer.from_config(config, output_dir=args.runs, local_files_only=True, **given)
    built = time.perf_counter()
    trainer.train()
    trained = time.perf_counter()
    trainer.close()
    print(json.dumps({"import_seconds": imported - BEGUN, "cold_start_seconds": built - imported,
                      "train_seconds": trained - built, "load_seconds": loads[0] if loads else None,
                      "device": device_name(args.device)}))  # fmt: skip


def timed_loads(trainer: type) -> list[float]:
    """Seconds of each checkpoint that the trainer takes up. Construction does it by a method of its own: there is no
    public moment between building and loading, so that method is wrapped by a clock."""
    seconds, load = [], trainer._load_from_checkpoint_impl

    def timed(self, directory):
        begun = time.perf_counter()
        state = load(self, directory)
        seconds.append(time.perf_counter() - begun)
        return state

    trainer._load_from_checkpoint_impl = timed
    return seconds


def device_name(device: str) -> str:
    if device == "cpu":
        return "cpu"
    import torch

    return torch.cuda.get_device_name(0)


if __name__ == "__main__":
    main()
