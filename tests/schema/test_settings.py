from dataclasses import FrozenInstanceError, asdict, replace

import pytest
from fitproof.errors import SettingsError, UsageError
from fitproof.schema.settings import CHOICES, FIELD_NAMES, NOT_IN_SETTINGS_ID, resolve
from fitproof.schema.workloads import LEVELS, WORKLOADS

STACK = dict(device="NVIDIA H200", torch="2.11.0+cu130", transformers="5.17.0")


def test_settings_are_frozen_and_keyword_only():
    settings = resolve()
    with pytest.raises(FrozenInstanceError):
        settings.model_id = "x"
    with pytest.raises(TypeError):
        type(settings)("Qwen/Qwen3-0.6B")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (dict(model="Qwen3-0.6B"), dict(model_id="Qwen/Qwen3-0.6B")),
        (dict(kv_reservation="0.60"), dict(kv_reservation="0.6")),
        (dict(workload="short"), dict(workload="short", train_batch_size=4, lora_alpha="auto")),
        (dict(actor_micro_batch=4), dict(actor_micro_batch=4, ref_logprob_micro_batch=4)),
        (dict(adaptation="full"), dict(adaptation="full", lora_rank=64, adapter_dtype="bfloat16")),
        (dict(rollout_engine="hf_generate"), dict(rollout_engine="hf_generate", kv_reservation="0.5")),
    ],
)
def test_two_spellings_of_one_configuration_have_one_id(one, other):
    assert resolve(**one) == resolve(**other)
    assert resolve(**one).settings_id == resolve(**other).settings_id


def test_ids_are_stable():
    """Frozen evidence carries these; if this fails, a default or a field changed the identity of released rows."""
    settings = resolve(capacity_mib=8192)
    assert (settings.settings_id, settings.configuration_id(**STACK)) == ("4fd51ee20abdf8f0", CONFIGURATION_ID)


CONFIGURATION_ID = "7d0ab3c2ab1f56cf"


def test_every_setting_but_the_named_ones_moves_the_settings_id():
    base = resolve(algorithm="grpo", rollout_engine="cuda_graph", kv_reservation="0.5", capacity_mib=16384)
    moved = {}
    for change in _one_change_each():
        other = resolve(**{**asdict(base), **change})
        moved[next(iter(change))] = other.settings_id != base.settings_id
        assert other.configuration_id(**STACK) != base.configuration_id(**STACK), change
    assert {name for name, is_moved in moved.items() if not is_moved} <= set(NOT_IN_SETTINGS_ID)
    assert len(moved) >= 30


def _one_change_each():
    yield from (dict(c) for c in [
        dict(model_id="HuggingFaceTB/SmolLM2-135M-Instruct"), dict(workload="chat", **WORKLOADS["chat"]),
        dict(algorithm="ppo", critic_micro_batch=None), dict(lora_rank=64), dict(lora_alpha=64),
        dict(lora_targets="attention"), dict(adapter_dtype="bfloat16"), dict(quantization="nf4"),
        dict(optimizer="adamw_8bit"), dict(dtype="float16"), dict(gradient_checkpointing=False), dict(logits_chunk=64),
        dict(use_kl=False, reference="none"), dict(reference="copy"), dict(train_batch_size=8, workload="custom"),
        dict(rollout_n=2, workload="custom"), dict(actor_micro_batch=2), dict(rollout_logprob_micro_batch=2),
        dict(ref_logprob_micro_batch=2), dict(max_prompt_length=64, workload="custom"),
        dict(max_response_length=32, workload="custom"), dict(padding="none"),
        dict(max_num_seqs=8, workload="custom"), dict(kv_reservation="0.6"), dict(free_cache_engine=False),
        dict(rollout_weights="copy"), dict(parameter_offload=True), dict(optimizer_offload=True),
        dict(empty_cache=True), dict(total_training_steps=3), dict(decode_coverage="edges"), dict(checkpoint_every=1),
        dict(deterministic=True), dict(capacity_mib=8192), dict(attn_implementation="eager"),
        dict(allocator="expandable_segments"), dict(rollout_engine="hf_paged"),
    ])  # fmt: skip


def test_device_and_stack_are_part_of_the_configuration_not_the_patch_version():
    settings = resolve()
    here = settings.configuration_id(**STACK)
    assert settings.configuration_id(**{**STACK, "torch": "2.11.3"}) == here
    assert settings.configuration_id(**{**STACK, "torch": "2.12.0"}) != here
    assert settings.configuration_id(**{**STACK, "device": "NVIDIA L4"}) != here


def test_problems_come_together_and_name_the_setting():
    with pytest.raises(SettingsError) as caught:
        resolve(rollout_engine="hf_generate", decode_coverage="edges", adaptation="full", quantization="nf4")
    assert "quantization=nf4" in str(caught.value)
    assert "decode_coverage=edges" in str(caught.value)


@pytest.mark.parametrize(
    "bad",
    [
        dict(nonsense=1), dict(algorithm="dpo"), dict(actor_micro_batch=0), dict(actor_micro_batch="4"),
        dict(actor_micro_batch=True), dict(kv_reservation="1.5"), dict(kv_reservation="a lot"), dict(rollout_n=1),
        dict(workload="huge"), dict(use_kl=1), dict(optimizer="paged_adamw_8bit", capacity_mib=8192),
        dict(algorithm="opd"), dict(algorithm="opd", teacher="Qwen3-1.7B", use_kl=True),
        dict(capacity_source="emulated"), dict(max_response_length=10**6), dict(model_id=3), dict(gpu_count=2),
        dict(use_kl=True, reference="none"), dict(adaptation="full", reference="adapter_off"),
    ],
)  # fmt: skip
def test_refuses(bad):
    with pytest.raises(UsageError):
        resolve(**bad)


def test_replace_checks_again():
    with pytest.raises(SettingsError):
        replace(resolve(), rollout_n=1)


def test_levels_and_workloads_resolve():
    ids = {resolve(workload=w, **level).settings_id for w in WORKLOADS for level in LEVELS.values()}
    assert len(ids) == 36


def test_every_choice_is_a_field():
    assert set(CHOICES) <= set(FIELD_NAMES)
