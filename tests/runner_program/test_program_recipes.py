import pytest
import torch
from fitproof.errors import SettingsError
from fitproof.runner.program import scoring
from fitproof.runner.program.micro_batches import MicroBatches
from fitproof.runner.program.models import add_teacher_adapter, build_actor, build_critic
from fitproof.runner.program.sequences import make_prompts
from program_cases import CPU, TINY, facts, run_events, stages, tiny


@pytest.mark.parametrize("model", TINY)
@pytest.mark.parametrize("adaptation", ["lora", "full"])
@pytest.mark.parametrize("engine", ["hf_generate", "cuda_graph", "hf_paged"])
@pytest.mark.parametrize("algorithm", ["ppo", "opd"])
def test_every_recipe_runs_its_stages(algorithm, engine, adaptation, model):
    given = dict(teacher=model) if algorithm == "opd" else {}
    events = run_events(
        tiny(model=model, algorithm=algorithm, adaptation=adaptation, engine=engine, rollout_n=1, **given)
    )
    one_step = {
        "ppo": ["rollout", "rollout_logprob", "reference_logprob", "reward", "critic_update", "actor_update"],
        "opd": ["rollout", "teacher_scoring", "actor_update"],
    }[algorithm]
    assert stages(events) == [("initializing", 0), *((name, step) for step in (1, 2) for name in one_step)]
    assert events[-1]["event"] == "finished"


def test_ppo_with_everything_offloaded_gives_the_same_stages():
    s = tiny(algorithm="ppo", adaptation="full", parameter_offload=True, optimizer_offload=True, rollout_weights="copy")
    names = [name for name, step in stages(run_events(s)) if step == 1]
    assert names[-2:] == ["actor_update", "weight_sync"]


def test_the_critic_is_trainable_throughout_and_values_every_response_position():
    s = tiny(algorithm="ppo")
    critic = build_critic(s, 1, CPU)
    assert all(p.requires_grad for p in critic.parameters())
    assert critic.head.weight.shape == (1, 64)
    prompts = make_prompts(s, 512, 1, 1, CPU)
    ids = torch.cat([prompts.ids, torch.arange(60).view(6, 10)], 1)
    got = scoring.score_values(MicroBatches(s, CPU), "pass", critic, s, ids, prompts.keep, 4)
    assert got.shape == (6, 10)
    assert got.std() > 0


def test_a_shared_backbone_holds_no_second_base():
    shared, apart = (facts(run_events(tiny(algorithm="opd", teacher=TINY[0], adaptation=a))) for a in ("lora", "full"))
    assert "teacher_parameters" not in shared
    assert shared["parameters"] < 2 * apart["teacher_parameters"]
    assert shared["teacher_cache_bytes"] == 6 * 10 * 32 * (4 + 8)


def test_the_teacher_adapter_speaks_only_as_teacher_and_never_trains():
    s = tiny(algorithm="opd", teacher=TINY[0])
    model = build_actor(s, 1, CPU)
    trainable = {id(p) for p in model.trainable()}
    prompts = make_prompts(s, 512, 1, 1, CPU)
    ids = torch.cat([prompts.ids, torch.arange(60).view(6, 10)], 1)
    before = scoring.score(MicroBatches(s, CPU), "pass", model, s, ids, prompts.keep, 6)
    add_teacher_adapter(model, s, 9, CPU)
    with model.as_teacher():
        teacher = scoring.score(MicroBatches(s, CPU), "pass", model, s, ids, prompts.keep, 6)
    assert torch.equal(scoring.score(MicroBatches(s, CPU), "pass", model, s, ids, prompts.keep, 6), before)
    assert not torch.allclose(teacher, before, atol=1e-6)
    assert {id(p) for p in model.trainable()} == trainable


def test_a_teacher_of_another_vocabulary_is_refused():
    with pytest.raises(SettingsError, match="vocabulary of 384"):
        run_events(tiny(algorithm="opd", teacher=TINY[1]))


@pytest.mark.parametrize("chunk", [0, 7])
def test_top_tokens_equal_a_plain_computation(chunk):
    s = tiny(logits_chunk=chunk)
    model = build_actor(s, 1, CPU)
    prompts = make_prompts(s, 512, 1, 1, CPU)
    ids = torch.cat([prompts.ids, torch.arange(60).view(6, 10)], 1)
    logp, tokens = scoring.score_top(MicroBatches(s, CPU), "pass", model, s, ids, prompts.keep, 4, 5)
    again = scoring.top_logprobs(model, s, ids, prompts.keep, tokens)
    torch.testing.assert_close(logp, again)
    with torch.no_grad():
        states = scoring.response_states(model, s, ids, prompts.keep)
        expected = model.logits(states).log_softmax(-1).sort(-1, descending=True)
    torch.testing.assert_close(logp, expected.values[..., :5])
