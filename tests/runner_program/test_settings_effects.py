"""Every setting changes what it should, and nothing else: the rows of `settings_table.py` and `settings_table_bnb.py`.

Memory is that of a dry run in bfloat16, exact to the byte; stages, rollouts and results are those of a float32 run on
the CPU. Settings that are remedies leave the trained parameters as they are.
"""

from dataclasses import replace

import pytest
import torch
from fitproof.errors import SettingsError
from fitproof.schema.models import catalogue
from fitproof.schema.settings import CHOICES, FIELD_NAMES, resolve
from settings_effects import check_cpu, check_dry, cpu_run, dry_run
from settings_table import ADAPTER, BASE, DEEPER, EFFECTS, F32, LAYERS, MICRO, ORDER, STAGES, WORDY, R
from settings_table_bnb import BITSANDBYTES

ROWS = [*EFFECTS, *BITSANDBYTES]


@pytest.fixture(autouse=True)
def _more_models(monkeypatch):
    for model in (DEEPER, WORDY):
        monkeypatch.setitem(catalogue(), model.model_id, model)


@pytest.mark.parametrize("effect", ROWS, ids=str)
def test_memory_and_stages_change_as_said(effect):
    check_dry(effect, {**BASE, "dtype": "bfloat16"})


@pytest.mark.parametrize("effect", ROWS, ids=str)
def test_stages_and_results_change_as_said(effect):
    check_cpu(effect, {**BASE, "dtype": "float32"})


def test_an_update_holds_the_logits_of_one_chunk():
    """Float32 arrays [positions, words] live at once: logits, their log-softmax, its gradient. All three get smaller;
    without a checkpoint around each chunk the log-softmax of every chunk would stay."""
    s = resolve(**{**BASE, "model": WORDY.model_id})
    whole, chunked = (dry_run(replace(s, logits_chunk=n))[1]["actor_update", 2].peak_requested for n in (0, 5))
    assert whole - chunked > 2.5 * (MICRO * R - 5) * 8192 * F32


def test_steps_repeat_the_stages():
    two, three = (resolve(**BASE, dtype="float32", total_training_steps=n) for n in (2, 3))
    memory, longer = dry_run(two)[1], dry_run(three)[1]
    assert list(memory) == STAGES
    assert list(longer) == [*STAGES, *((name, 3) for name in ORDER)]
    assert all(longer[stage] == memory[stage] for stage in STAGES)
    assert [longer[name, 3].requested for name in ORDER] == [longer[name, 2].requested for name in ORDER]
    short, long = cpu_run(two), cpu_run(three)
    assert all(torch.equal(a, b) for a, b in zip(short.rollouts, long.rollouts[:2], strict=True))
    assert short.facts == long.facts


def test_checkpoints_are_a_stage_and_change_nothing():
    without, with_them = (
        cpu_run(resolve(**BASE, dtype="float32", total_training_steps=4, checkpoint_every=n)) for n in (0, 2)
    )
    saved = [stage for stage in with_them.stages if stage[0] == "checkpoint"]
    assert saved == [("checkpoint", 2), ("checkpoint", 4)]
    for _, step in saved:
        assert with_them.stages[with_them.stages.index(("checkpoint", step)) - 1] == ("actor_update", step)
    assert [stage for stage in with_them.stages if stage not in saved] == without.stages
    counts = LAYERS * 7 * 2 * F32  # of steps, one for each matrix
    assert with_them.facts == {**without.facts, "checkpoint_bytes": 3 * ADAPTER * F32 + counts}
    assert all(torch.equal(a, b) for a, b in zip(without.parameters, with_them.parameters, strict=True))


def test_checkpoints_take_no_device_bytes():
    steps = dict(total_training_steps=4)
    (facts, memory, events), (new_facts, new_memory, new_events) = (
        dry_run(resolve(**BASE, **steps, checkpoint_every=n)) for n in (0, 2)
    )
    saved = [("checkpoint", 2), ("checkpoint", 4)]
    assert {k: v for k, v in new_memory.items() if k not in saved} == memory
    assert [e for e in new_events if e[:1] != ("stage",)] == [e for e in events if e[:1] != ("stage",)]
    counts = LAYERS * 7 * 2 * F32
    assert new_facts == {**facts, "checkpoint_bytes": 3 * ADAPTER * F32 + counts}


def test_more_cards_are_refused():
    with pytest.raises(SettingsError, match="gpu_count > 1 is not supported yet"):
        resolve(**BASE, gpu_count=2)


def test_the_seed_is_no_setting_and_decides_no_shape():
    with pytest.raises(SettingsError, match="unknown"):
        resolve(**BASE, seed=3)
    one, other = (cpu_run(resolve(**BASE, dtype="float32"), seed=seed) for seed in (3, 4))
    assert (one.stages, one.facts, one.counts) == (other.stages, other.facts, other.counts)
    assert not torch.equal(one.rollouts[0], other.rollouts[0])


# What the rows above do not vary, shown by a test of its own.
OWN_TEST = {
    "total_training_steps": test_steps_repeat_the_stages,
    "checkpoint_every": test_checkpoints_are_a_stage_and_change_nothing,
    "gpu_count": test_more_cards_are_refused,
}
# Wants a package of its own that is never required: `test_program_vllm.py` runs it against a fake of its interface.
NOT_INSTALLED = {"rollout_engine": {"vllm"}}


def test_every_setting_has_a_row():
    assert {name for e in ROWS for name in e.change} | set(OWN_TEST) == set(FIELD_NAMES)


def test_every_choice_is_taken():
    taken = [resolve(**{**BASE, **e.on, **change}) for e in ROWS for change in ({}, e.change)]
    for name, choices in CHOICES.items():
        assert {getattr(s, name) for s in taken} - {None} == set(choices) - NOT_INSTALLED.get(name, set()), name
