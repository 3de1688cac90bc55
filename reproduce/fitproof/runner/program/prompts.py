"""Generated prompts: arithmetic and text tasks with checkable answers, as byte-level token ids. No tokenizer needed.

Deterministic per seed and distinct: the task's running number is part of its text.
"""

import random
from dataclasses import dataclass

from ...errors import SettingsError
from ...schema.settings import Settings

PAD_ID = 0
BYTE_OFFSET = 3  # ids 1 and 2 stay free, as begin and end markers usually are
_WORDS = ("amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "heron", "inlet", "jade", "karst", "larch",
          "maple", "north", "otter", "pearl", "quill", "river", "slate", "thorn", "umber", "vale", "willow",
          "yarrow")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Task:
    """A prompt as token ids and the text that a right response contains."""

    ids: tuple[int, ...]
    answer: str


def make_tasks(s: Settings, vocab_size: int, *, seed: int, start: int, count: int) -> list[Task]:
    """Tasks number `start` to `start + count - 1` of the stream that belongs to `seed`.

    Lengths vary between half and all of max_prompt_length; with padding=none every prompt is exactly full.
    Raises SettingsError where bytes do not fit the vocabulary.
    """
    if vocab_size < BYTE_OFFSET + 256:
        raise SettingsError(f"model {s.model_id}", found=f"vocabulary of {vocab_size}",
                            expected=f"at least {BYTE_OFFSET + 256} ids for byte-level prompts")  # fmt: skip
    return [_task(s, seed, number) for number in range(start, start + count)]


def _task(s: Settings, seed: int, number: int) -> Task:
    # The stream of one task depends on its number only, so a resumed run sees the same prompts without replaying.
    rng = random.Random(f"{seed}/{number}")
    longest = s.max_prompt_length
    length = longest if s.padding == "none" else rng.randint((longest + 1) // 2, longest)
    if number % 2 == 0:
        a, b, c = rng.randrange(10, 1000), rng.randrange(10, 1000), rng.randrange(2, 10)
        question, answer = f" Compute ({a} + {b}) * {c}. Answer:", str((a + b) * c)
    else:
        words = rng.sample(_WORDS, 4)
        question, answer = f" Sort: {' '.join(words)}. Answer:", " ".join(sorted(words))
    head = f"Task {number}."
    filler = ""
    while len(head) + len(filler) + len(question) < length:
        filler += " " + rng.choice(_WORDS)
    room = max(0, length - len(question))
    text = ((head + filler)[:room] + question)[-length:]
    return Task(tuple(byte + BYTE_OFFSET for byte in text.encode("ascii")), answer)


def score_response(task: Task, response: list[int]) -> float:
    """Reward in [0, 1.1]: 1 for the answer anywhere in the text, and up to 0.1 for digits and spaces, so that random
    text is not all alike."""
    text = "".join(chr(i - BYTE_OFFSET) if BYTE_OFFSET <= i < BYTE_OFFSET + 128 else "?" for i in response)
    plain = sum(c.isdigit() or c == " " for c in text)
    return float(task.answer in text) + 0.1 * plain / max(1, len(text))
