"""What peers load: our random weights as a local snapshot, our byte-level prompts as text, a tokenizer between them.

    python -m benchmarks.runner.materials FOLDER --settings JSON --prompts N

Weights are those that the trial program draws from the same seed, in the same dtype. A prompt that the tokenizer reads
gives the ids that the trial program uses: byte b is id b + 3.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import torch
from fitproof.runner.plan import settings_from
from fitproof.runner.program.models import build_frozen
from fitproof.runner.program.prompts import BYTE_OFFSET, make_tasks
from fitproof.schema.models import get_model
from fitproof.schema.settings import Settings

STUDENT, TEACHER, PROMPTS = "student", "teacher", "prompts.parquet"
_SPECIAL = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}


def save_snapshot(settings: Settings, model_id: str, seed: int, folder: Path, device: torch.device) -> None:
    """Weights, configuration and tokenizer of `model_id` as `from_pretrained` takes them."""
    causal = build_frozen(replace(settings, quantization="none"), model_id, seed, device).causal
    # A response has its full length: no token ends it. Peers that ask for an end token get one that is never likely.
    causal.config.eos_token_id, causal.config.pad_token_id = 2, 0
    causal.generation_config.eos_token_id, causal.generation_config.pad_token_id = 2, 0
    causal.save_pretrained(folder)
    _save_tokenizer(causal.config.vocab_size, folder)


def _save_tokenizer(vocabulary: int, folder: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    ids = {token: number for number, token in enumerate(_SPECIAL.values())}
    ids |= {_visible(byte): byte + BYTE_OFFSET for byte in range(256)}
    ids |= {f"<{number}>": number for number in range(256 + BYTE_OFFSET, vocabulary)}
    tokenizer = Tokenizer(models.BPE(vocab=ids, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, padding_side="left", **_SPECIAL)
    fast.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    fast.save_pretrained(folder)


def _visible(byte: int) -> str:
    """The character by which byte-level tokenizers write a byte: itself if it is printable, else one above 255."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    if byte in printable:
        return chr(byte)
    return chr(256 + sum(b not in printable for b in range(byte)))


def prompt_texts(settings: Settings, vocabulary: int, count: int, seed: int = 0) -> list[str]:
    """The first `count` prompts of the trial program's stream."""
    tasks = make_tasks(settings, vocabulary, seed=seed, start=0, count=count)
    return [bytes(i - BYTE_OFFSET for i in task.ids).decode("ascii") for task in tasks]


def save_prompts(texts: list[str], path: Path) -> None:
    """Prompts in the Parquet layout of verl: a message list a row."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [{"prompt": [{"role": "user", "content": text}], "data_source": "fitproof"} for text in texts]
    pq.write_table(pa.Table.from_pylist(rows), path)


def write_materials(settings: Settings, folder: Path, device: torch.device, *, prompts: int) -> None:
    """Student, teacher where there is one, and prompts below `folder`."""
    folder.mkdir(parents=True)
    save_snapshot(settings, settings.model_id, 0, folder / STUDENT, device)
    if settings.teacher_id is not None:
        save_snapshot(settings, settings.teacher_id, 3, folder / TEACHER, device)  # the program's teacher is seed + 3
    texts = prompt_texts(settings, get_model(settings.model_id).config["vocab_size"], prompts)
    save_prompts(texts, folder / PROMPTS)
    (folder / "prompts.json").write_text(json.dumps(texts) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--settings", type=json.loads, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--prompts", type=int, required=True)
    args = parser.parse_args()
    write_materials(settings_from(args.settings), args.folder, torch.device(args.device), prompts=args.prompts)
    print(json.dumps({"folder": str(args.folder)}))


if __name__ == "__main__":
    main()
