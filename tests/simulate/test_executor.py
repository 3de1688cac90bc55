"""The trial program without a device: copies of repeated parts are exact, refusals have reasons, releases balance."""

import pytest
from fitproof.errors import EnvironmentLacks
from fitproof.schema.settings import resolve
from fitproof.simulate.executor import simulate
from fitproof.simulate.profile import load_profile
from fitproof.simulate.replay import replay

PROFILE = load_profile("h200")


def tiny(**given):
    small = dict(model="fitproof/tiny-qwen3", train_batch_size=4, rollout_n=2, max_prompt_length=16,
                 max_response_length=70, max_num_seqs=4, actor_micro_batch=1)  # fmt: skip
    return resolve(**{**small, **given})


def memory(simulation):
    run = replay(simulation.events, placement=PROFILE.placement)
    return [(m.stage, m.peak_requested, m.peak_allocated, m.peak_reserved, m.requested) for m in run.stages]


@pytest.mark.parametrize(
    "given",
    [
        dict(),
        dict(gradient_checkpointing=False, actor_micro_batch=3),
        dict(adaptation="full", reference="copy", model="fitproof/tiny-llama"),
        dict(algorithm="ppo", parameter_offload=True, optimizer_offload=True, empty_cache=True),
        dict(algorithm="opd", teacher="fitproof/tiny-qwen3"),
        dict(rollout_weights="copy", free_cache_engine=False, attn_implementation="eager"),
        dict(capture_micro_batches=True, total_training_steps=3),
        dict(capture_micro_batches=True, parameter_offload=True, adaptation="full"),
        dict(quantization="nf4", capture_micro_batches=True, optimizer="adamw_8bit"),
        dict(quantization="nf4", gradient_checkpointing=False, actor_micro_batch=3),
        dict(quantization="nf4", rollout_weights="copy", parameter_offload=True, optimizer="adamw_8bit"),
    ],
    ids=lambda given: "-".join(map(str, given)) or "default",
)
def test_copied_parts_make_the_events_of_running_them(given):
    fast, slow = (simulate(tiny(**given), PROFILE, copy_repeats=copy) for copy in (True, False))
    assert fast.operations < slow.operations
    assert len(fast.events) == len(slow.events)
    assert memory(fast) == memory(slow)
    assert fast.facts == slow.facts


@pytest.mark.parametrize("given", [dict(), dict(actor_micro_batch=3), dict(algorithm="ppo", adaptation="full")])
def test_edges_of_passes_have_the_peaks_of_the_whole(given):
    whole, edges = (
        simulate(tiny(**given, micro_batch_coverage=c), PROFILE, copy_repeats=False) for c in ("full", "edges")
    )
    assert edges.operations <= whole.operations
    assert memory(edges) == memory(whole)


def test_captured_passes_keep_a_pool_apart_and_release_it_where_parameters_move():
    """Reserved at the end of the second rollout, which needs none of it: kept where the graphs are kept."""
    reserved = {}
    for capture, offload in ((False, False), (True, False), (True, True)):
        simulation = simulate(tiny(capture_micro_batches=capture, parameter_offload=offload), PROFILE)
        pools = {event[3] for event in simulation.events if event[0] == "alloc" and len(event) > 3}
        stages = replay(simulation.events, placement=PROFILE.placement).stages
        reserved[capture, offload] = next(m.reserved for m in stages if m.stage == ("rollout", 2)), len(pools)
    assert reserved[True, False][0] > reserved[False, False][0]
    assert reserved[True, True][1] > reserved[True, False][1] > reserved[False, False][1]


def test_nothing_outlives_the_trial_but_workspaces():
    simulation = simulate(tiny(), PROFILE)
    live = {}
    for event in simulation.events:
        if event[0] == "alloc":
            live[event[1]] = event[2]
        elif event[0] == "free":
            del live[event[1]]
    assert {simulation.labels[key] for key in live} == {"cublas_workspace"}
    assert sorted(live.values()) == [PROFILE.cublas_workspace_bytes] * 3  # program, capture stream, autograd


def test_offloaded_parameters_leave_the_device():
    at_reward = {
        offload: next(m[4] for m in memory(simulate(tiny(parameter_offload=offload), PROFILE)) if m[0] == ("reward", 1))
        for offload in (False, True)
    }
    parameters = simulate(tiny(), PROFILE).facts["parameters"]
    assert at_reward[False] - at_reward[True] > 2 * parameters * 0.9


@pytest.mark.parametrize("name", ["hf_generate", "hf_paged", "vllm"])
def test_engines_it_cannot_follow_are_refused(name):
    given = dict(kv_reservation="0.5") if name == "vllm" else {}
    with pytest.raises(EnvironmentLacks, match=f"rollout_engine={name}") as refused:
        simulate(tiny(rollout_engine=name, **given), PROFILE)
    assert refused.value.exit_code == 3


def test_a_checkpoint_takes_nothing_of_the_device():
    simulation = simulate(tiny(checkpoint_every=1, optimizer_offload=True), PROFILE)
    events = simulation.events
    for step in (1, 2):
        begin = events.index(("stage", ("checkpoint", step)))
        end = events.index(("stage", ("idle", step)), begin)
        assert end == begin + 1
    assert simulation.facts["checkpoint_bytes"] > 3 * simulation.facts["adapter_bytes"]


def test_a_pool_without_room_is_a_refusal_of_the_program():
    simulation = simulate(tiny(kv_reservation="0.0001", capacity_mib=4096), PROFILE)
    assert "No available memory for the cache blocks" in simulation.refusal
    assert ("stage", ("actor_update", 1)) not in simulation.events
