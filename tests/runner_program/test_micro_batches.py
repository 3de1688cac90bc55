"""Passes over micro-batches: whole, with edges only, and from a capture (on a CPU a capture runs as it is)."""

import pytest
import torch
from fitproof.runner.program.micro_batches import MicroBatches
from fitproof.runner.program.recipes.grpo import Grpo
from fitproof.runner.program.recipes.opd import Opd
from fitproof.runner.program.recipes.ppo import Ppo
from fitproof.runner.program.recorder import CpuMeter, Recorder
from program_cases import CPU, TINY, run_events, stages, tiny


def trained(recipe, s):
    """The trainable parameters after all steps of `s`."""
    torch.manual_seed(3)
    run = recipe(s, seed=3, device=CPU, recorder=Recorder(None, CpuMeter()))
    run.run()
    return [p.detach().clone() for updater in run.state.updaters.values() for p in updater.model.trainable()]


@pytest.mark.parametrize("adaptation", ["lora", "full"])
@pytest.mark.parametrize("recipe", [Grpo, Ppo, Opd])
@pytest.mark.parametrize("given", [
    dict(),
    dict(parameter_offload=True),
    dict(rollout_n=7, train_batch_size=1, actor_micro_batch=2),  # after three that are captured one that is not
    dict(actor_micro_batch=3, rollout_logprob_micro_batch=1, ref_logprob_micro_batch=1, teacher_micro_batch=1),
], ids=str)  # fmt: skip
def test_a_captured_pass_gives_the_same_parameters(recipe, adaptation, given):
    given = dict(algorithm=recipe.__name__.lower(), adaptation=adaptation, rollout_n=2, train_batch_size=3,
                 actor_micro_batch=1) | given  # fmt: skip
    if recipe is Opd:
        given["teacher"] = TINY[0]
    eager, captured = (trained(recipe, tiny(**given, capture_micro_batches=c)) for c in (False, True))
    assert eager
    assert all(torch.equal(a, b) for a, b in zip(eager, captured, strict=True))


def test_captured_passes_are_captured_once_and_their_uneven_end_is_run():
    s = tiny(capture_micro_batches=True)
    passes, runs = MicroBatches(s, CPU), []

    def double(x):
        runs.append(x.shape[0])
        return x * 2

    for _ in range(2):
        got = passes.run("double", double, [torch.arange(7.0)], 2)
        assert torch.equal(torch.cat(got), torch.arange(7.0) * 2)
    assert len(passes._captured) == 1
    assert runs == [2, 2, 2, 1] * 2
    passes.run("triple", lambda x: x * 3, [torch.arange(6.0)], 2)
    assert len(passes._captured) == 2


def test_a_capture_is_made_for_three_replays_in_a_pass_or_over_the_steps():
    passes = MicroBatches(tiny(capture_micro_batches=True), CPU)
    assert [passes.captures(count, 2) for count in (4, 5, 6)] == [False, False, True]
    long = dict(capture_micro_batches=True, total_training_steps=3)
    assert [MicroBatches(tiny(**long), CPU).captures(count, 2) for count in (1, 2)] == [False, True]
    assert not MicroBatches(tiny(**long, parameter_offload=True), CPU).captures(2, 2)
    assert not MicroBatches(tiny(), CPU).captures(6, 2)


@pytest.mark.parametrize("capture", [False, True])
def test_edges_run_the_first_the_last_full_one_and_a_smaller_last(capture):
    s = tiny(micro_batch_coverage="edges", capture_micro_batches=capture)
    seen = []

    def note(x):
        seen.append(x.tolist())
        return x + 1, x.double()

    got = MicroBatches(s, CPU).run("note", note, [torch.arange(9)], 2)
    assert seen == [[0, 1], [6, 7], [8]]
    assert [pair[0].tolist() for pair in got] == [[1, 2], [1, 2], [1, 2], [7, 8], [9]]
    assert all(pair[1].dtype == torch.float64 for pair in got)
    seen.clear()
    MicroBatches(s, CPU).run("note", note, [torch.arange(8)], 2)
    assert seen == [[0, 1], [6, 7]]


@pytest.mark.parametrize("given", [dict(micro_batch_coverage="edges"), dict(capture_micro_batches=True)])
def test_stages_are_those_of_a_plain_run(given):
    shape = dict(train_batch_size=4, rollout_n=2, actor_micro_batch=1)
    assert stages(run_events(tiny(**shape, **given))) == stages(run_events(tiny(**shape)))


@pytest.mark.parametrize("resident", [False, True])
def test_prefill_is_captured_where_the_pool_stays(resident):
    """And the trained parameters are those of a plain run."""
    given = dict(free_cache_engine=not resident, total_training_steps=3, max_num_seqs=6)
    eager, captured = (trained(Grpo, tiny(**given, capture_micro_batches=c)) for c in (False, True))
    assert all(torch.equal(a, b) for a, b in zip(eager, captured, strict=True))
    run = Grpo(tiny(**given, capture_micro_batches=True), seed=3, device=CPU, recorder=Recorder(None, CpuMeter()))
    run.run()
    assert (("prefill", 0) in {key[0] for key in run.passes._captured}) == resident
