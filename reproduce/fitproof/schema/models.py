"""The catalogue of true architectures (models.json). Parameter counts are checked against transformers in the tests."""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from ..errors import UsageError

TINY = {
    # Not real models: the smallest shapes that take every code path (grouped-query attention, tied and untied
    # embeddings). Tests and the CPU panel use them; they are never eligible for a GPU panel.
    "fitproof/tiny-qwen3": (
        "tiny",
        "qwen3",
        dict(
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=16,
            vocab_size=512,
            tie_word_embeddings=True,
            rope_theta=10000.0,
            max_position_embeddings=1024,
            rms_norm_eps=1e-6,
        ),
    ),
    "fitproof/tiny-llama": (
        "tiny",
        "llama",
        dict(
            hidden_size=48,
            intermediate_size=96,
            num_hidden_layers=3,
            num_attention_heads=3,
            num_key_value_heads=1,
            vocab_size=384,
            tie_word_embeddings=False,
            rope_theta=10000.0,
            max_position_embeddings=1024,
            rms_norm_eps=1e-5,
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class Model:
    """One architecture. `config` holds the arguments of the transformers config class named by `model_type`."""

    model_id: str
    family: str
    licence: str
    model_type: str
    parameters: int | None
    config: dict


@cache
def catalogue() -> dict[str, Model]:
    """model_id -> Model, the published models first, then the tiny ones."""
    rows = json.loads(files(__package__).joinpath("models.json").read_text(encoding="utf-8"))
    models = {row["model_id"]: Model(**row) for row in rows}
    for model_id, (family, model_type, config) in TINY.items():
        models[model_id] = Model(model_id, family, "mit", model_type, None, config)
    return models


def get_model(name: str) -> Model:
    """A model by its id, or by the unambiguous last part of it ("Qwen3-0.6B"). Raises UsageError."""
    models = catalogue()
    if name in models:
        return models[name]
    short = [m for m in models.values() if m.model_id.split("/")[1].lower() == name.lower()]
    if not short:  # "Qwen2.5-7B" for "Qwen2.5-7B-Instruct"
        short = [m for m in models.values() if m.model_id.split("/")[1].lower() == f"{name.lower()}-instruct"]
    if len(short) == 1:
        return short[0]
    raise UsageError(
        f"model {name!r}",
        found="not in the catalogue",
        expected="one of: " + ", ".join(sorted(models)),
        hint="pass the full model id",
    )
