"""What the workload is made of, and settings it cannot be run with."""

import pytest
from fitproof.errors import UsageError
from fitproof.runner.program.prompts import make_tasks
from fitproof.runner.workloads.opd import panel_name
from fitproof.runner.workloads.pairs import PAIRS, PROMPTS, workload_settings
from fitproof.schema.models import get_model


@pytest.mark.parametrize(("pair", "student", "teacher"), [
    ("qwen3", "Qwen/Qwen3-0.6B", "Qwen/Qwen3-1.7B"),
    ("smollm2", "HuggingFaceTB/SmolLM2-360M-Instruct", "HuggingFaceTB/SmolLM2-1.7B-Instruct"),
])  # fmt: skip
def test_the_recipe_is_the_one_to_match(pair, student, teacher):
    s = workload_settings(pair)
    assert (s.model_id, s.teacher_id, s.quantization, s.algorithm) == (student, teacher, "nf4", "opd")
    assert (s.lora_rank, s.lora_alpha, s.lora_targets) == (8, 16, "attention")
    assert (s.max_prompt_length, s.max_response_length) == (128, 64)
    assert (s.rollout_batch, s.max_num_seqs, s.actor_micro_batch) == (4, 4, 1)
    assert (s.total_training_steps, s.checkpoint_every, s.deterministic) == (8, 4, True)


def test_the_prompts_are_distinct_and_half_of_them_are_consumed():
    s = workload_settings("qwen3")
    vocabulary = get_model(s.model_id).config["vocab_size"]
    tasks = make_tasks(s, vocabulary, seed=0, start=0, count=PROMPTS)
    assert len({task.ids for task in tasks}) == PROMPTS == 64
    assert s.train_batch_size * s.total_training_steps == 32


def test_overrides_win_and_give_a_panel_of_their_own():
    own = workload_settings("qwen3", {"actor_micro_batch": 4, "gradient_checkpointing": True})
    assert (own.actor_micro_batch, own.gradient_checkpointing) == (4, True)
    assert panel_name("qwen3", workload_settings("qwen3")) == "opd_qwen3"
    assert panel_name("qwen3", own) == f"opd_qwen3_{own.settings_id[:8]}"


@pytest.mark.parametrize("overrides", [
    {"deterministic": False}, {"checkpoint_every": 0}, {"checkpoint_every": 8}, {"checkpoint_every": 3},
    {"total_training_steps": 20}, {"adaptation": "full", "quantization": "none"},
])  # fmt: skip
def test_what_cannot_be_rehearsed_is_refused(overrides):
    with pytest.raises(UsageError):
        workload_settings("qwen3", overrides)


def test_an_unknown_pair_names_the_known_ones():
    with pytest.raises(UsageError, match=", ".join(PAIRS)):
        workload_settings("llama")
