import itertools

import pytest
from fitproof.schema.records import event_spec, problems
from program_cases import TINY, facts, run_events, stages, tiny


@pytest.mark.parametrize(
    ("model", "adaptation", "engine", "use_kl", "checkpointing"),
    [
        *itertools.product(
            TINY, ("lora", "full"), ("hf_generate", "cuda_graph", "hf_paged"), (True, False), (True, False)
        )
    ],
)
def test_every_combination_runs_its_stages(model, adaptation, engine, use_kl, checkpointing):
    s = tiny(model=model, adaptation=adaptation, engine=engine, use_kl=use_kl, gradient_checkpointing=checkpointing)
    events = run_events(s)
    one_step = ["rollout", "rollout_logprob", *(["reference_logprob"] if use_kl else []), "reward", "actor_update"]
    assert stages(events) == [("initializing", 0), *((name, step) for step in (1, 2) for name in one_step)]
    assert events[-1]["event"] == "finished"
    assert events[-1]["completed_steps"] == 2
    assert ("kv_pool_bytes" in facts(events)) == (engine != "hf_generate")


def test_events_follow_the_record_layout():
    events = run_events(tiny(rollout_weights="copy"))
    wrong = [p for e in events for p in problems(e, event_spec(e["event"]), e["event"])]
    assert wrong == []
    assert events[0]["name"] == "baseline_process_bytes"
    assert [e["t_ns"] for e in events] == sorted(e["t_ns"] for e in events)


def test_memory_of_a_stage_is_ordered():
    for e in run_events(tiny()):
        if e["event"] == "stage_end":
            assert 0 < e["allocated_bytes"] <= e["reserved_bytes"] <= e["peak_reserved_bytes"]


def test_tokens_of_the_stages():
    s = tiny(total_training_steps=1)
    tokens = {e["stage"]: e["tokens"] for e in run_events(s) if e["event"] == "stage_end"}
    assert tokens["rollout"] == 6 * 10
    assert tokens["rollout_logprob"] == tokens["reference_logprob"] == tokens["actor_update"] == 6 * 34


def test_a_rollout_copy_makes_weight_sync_a_stage():
    names = [name for name, _ in stages(run_events(tiny(rollout_weights="copy", total_training_steps=1)))]
    assert names[-1] == "weight_sync"


@pytest.mark.parametrize(
    "given",
    [
        dict(reference="copy"),
        dict(adaptation="full", parameter_offload=True, optimizer_offload=True, empty_cache=True),
        dict(parameter_offload=True, reference="copy", rollout_weights="copy", free_cache_engine=False),
        dict(padding="none", attn_implementation="sdpa"),
        dict(attn_implementation="eager"),
        dict(attn_implementation="eager", padding="none", engine="hf_generate"),
        dict(padding="none", engine="hf_generate"),
        dict(dtype="bfloat16", adapter_dtype="float32", logits_chunk=7),
        dict(dtype="float32", adapter_dtype="bfloat16", lora_targets="attention"),
        dict(free_cache_engine=False),
        dict(engine="hf_paged", free_cache_engine=False, padding="none"),
        dict(engine="hf_paged", attn_implementation="eager", dtype="bfloat16"),
        dict(engine="hf_paged", rollout_weights="copy", parameter_offload=True, empty_cache=True),
        dict(actor_micro_batch=1, rollout_logprob_micro_batch=6, ref_logprob_micro_batch=5),
    ],
    ids=lambda given: "-".join(map(str, given)),
)
def test_other_settings_run(given):
    assert run_events(tiny(**given))[-1]["event"] == "finished"
