import pytest
import torch
from fitproof.errors import UsageError
from fitproof.schema.models import catalogue, get_model
from transformers import AutoConfig, AutoModelForCausalLM

PUBLISHED = [m for m in catalogue().values() if m.parameters is not None]


def test_the_catalogue_has_fifteen_published_models_of_six_families():
    assert len(PUBLISHED) == 15
    assert len({m.family for m in PUBLISHED}) == 6


@pytest.mark.parametrize("model", PUBLISHED, ids=lambda m: m.model_id)
def test_parameter_count_is_what_transformers_builds(model):
    config = AutoConfig.for_model(model.model_type, **model.config)
    with torch.device("meta"):
        built = AutoModelForCausalLM.from_config(config)
    assert sum(p.numel() for p in built.parameters()) == model.parameters


def test_short_names_and_unknown_names():
    assert get_model("qwen3-0.6b").model_id == "Qwen/Qwen3-0.6B"
    assert get_model("Qwen2.5-7B").model_id == "Qwen/Qwen2.5-7B-Instruct"
    with pytest.raises(UsageError, match="not in the catalogue"):
        get_model("GPT-9")
