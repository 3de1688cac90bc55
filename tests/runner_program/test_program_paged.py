"""hf_paged on the CPU: transformers' own continuous batching over tiny models."""

import gc
import io
import sys
import threading
import weakref
from dataclasses import replace

import pytest
import torch
from fitproof.runner import child
from fitproof.runner.diagnosis.attempt import diagnose_attempt
from fitproof.runner.program.engines import hf_paged
from fitproof.runner.program.engines.hf_generate import HfGenerate
from fitproof.runner.program.engines.hf_paged import BLOCK, HfPagedEngine
from fitproof.runner.program.models import LanguageModel, build_actor
from fitproof.runner.program.recorder import CpuMeter, Recorder
from fitproof.runner.program.sequences import make_prompts
from fitproof.schema.models import catalogue
from program_cases import CPU, TINY, events_of, facts, run_events, tiny, write_trial
from transformers.generation.continuous_batching.scheduler import Scheduler

TOKEN_BYTES = 2 * 2 * 2 * 16 * 4  # of the tiny models: keys and values, layers, heads, width, float32


def loud(model: LanguageModel) -> LanguageModel:
    """Make layers and adapter matter to the choice of tokens, and biases differ."""
    with torch.no_grad():
        for p in (p for layer in model.trunk.layers for p in layer.parameters() if p.requires_grad and p.ndim == 2):
            p.mul_(20.0 if model.adapter is not None else 5.0)
        for name, p in model.causal.named_parameters():
            if name.endswith("bias"):
                p.normal_(0, 0.1)
    return model


def paged(model: LanguageModel, s, sample: bool = False, stream=None) -> HfPagedEngine:
    return HfPagedEngine(model, s, CPU, Recorder(stream or io.StringIO(), CpuMeter()), sample)


def both(model: LanguageModel, s, step: int = 1, vocab: int = 384) -> tuple[list, list]:
    prompts = make_prompts(s, vocab, 3, step, CPU)
    return paged(model, s).rollout(prompts).tolist(), HfGenerate(model, s, CPU, sample=False).rollout(prompts).tolist()


@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("adaptation", ["lora", "full"])
@pytest.mark.parametrize(("prompt", "response", "waves"), [(24, 80, 4), (40, 230, 6)])
def test_greedy_equals_generate(name, adaptation, prompt, response, waves):
    """Within a block and across blocks, in one wave and several."""
    s = tiny(model=name, adaptation=adaptation, max_num_seqs=waves, max_prompt_length=prompt,
             max_response_length=response)  # fmt: skip
    ours, theirs = both(loud(build_actor(s, 1, CPU)), s)
    assert ours == theirs
    assert len({tuple(row[prompt:]) for row in ours}) > 1  # the prompts lead to different responses


@pytest.mark.parametrize("prompt", [60, 300])
def test_prompts_prefilled_in_pieces_equal_generate(prompt, monkeypatch):
    monkeypatch.setattr(hf_paged, "PREFILL_TOKENS", 50)  # less than a prompt
    s = tiny(model=TINY[1], adaptation="full", padding="none", max_prompt_length=prompt, max_response_length=30)
    ours, theirs = both(loud(build_actor(s, 1, CPU)), s)
    assert ours == theirs
    assert len({tuple(row[prompt:]) for row in ours}) > 1


@pytest.mark.parametrize("given", [dict(padding="none"), dict(attn_implementation="eager")], ids=str)
@pytest.mark.parametrize("model_type", ["qwen2", "phi3", "granite"])
def test_greedy_equals_generate_for_the_other_architectures(model_type, given, monkeypatch):
    real = next(m for m in catalogue().values() if m.model_type == model_type)
    small = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                 num_key_value_heads=2, vocab_size=400)  # fmt: skip
    config = {k: v for k, v in {**real.config, **small}.items() if not k.endswith("_token_id")}
    if model_type == "granite":
        config |= dict(
            embedding_multiplier=12.0, attention_multiplier=0.1, residual_multiplier=0.22, logits_scaling=8.0
        )
    if model_type == "phi3":
        config |= dict(pad_token_id=0, bos_token_id=1, eos_token_id=2)
    s = tiny(model=real.model_id, max_response_length=60, **given)
    monkeypatch.setitem(catalogue(), real.model_id, replace(real, config=config))
    ours, theirs = both(loud(build_actor(s, 1, CPU)), s)
    assert ours == theirs


@pytest.mark.parametrize("resident", [True, False])
def test_later_rollouts_see_the_updated_weights(resident):
    s = tiny(engine="hf_paged", free_cache_engine=not resident)
    model = build_actor(s, 1, CPU)
    engine = paged(model, s)
    prompts = make_prompts(s, 384, 3, 1, CPU)
    before = engine.rollout(prompts).tolist()
    model.causal.train()  # as an update does
    loud(model)
    model.offload()
    model.load()
    after = engine.rollout(prompts).tolist()
    assert not model.causal.training
    assert before != after == HfGenerate(model, s, CPU, sample=False).rollout(prompts).tolist()


def test_nothing_is_left_after_a_rollout_but_the_sequences():
    s = tiny(engine="hf_paged", padding="none")
    model = build_actor(s, 1, CPU)
    attention = model.config._attn_implementation
    before = threading.active_count()
    engine = paged(model, s)
    engine.rollout(make_prompts(s, 384, 3, 1, CPU))
    assert model.config._attn_implementation == attention == "sdpa_without_mask"
    assert threading.active_count() == before
    assert engine._manager is None
    assert not hasattr(model.causal, "_cached_continuous_batching_manager")


def test_release_frees_a_resident_pool_at_once():
    s = tiny(engine="hf_paged", free_cache_engine=False)
    engine = paged(build_actor(s, 1, CPU), s)
    engine.rollout(make_prompts(s, 384, 3, 1, CPU))
    pool = weakref.ref(engine._manager.batch_processor.cache)
    gc.collect()
    gc.disable()  # no cycle may stand between the pool and its end
    try:
        engine.release()
        assert pool() is None
    finally:
        gc.enable()


def test_a_reservation_becomes_whole_blocks_within_its_bytes():
    s = tiny(engine="hf_paged", kv_reservation="0.5", capacity_mib=64, capacity_source="device")

    class Full(CpuMeter):
        def reserved_bytes(self) -> int:
            return 20 * 2**20 + 1

    stream = io.StringIO()
    engine = HfPagedEngine(build_actor(s, 1, CPU), s, CPU, Recorder(stream, Full()))
    engine.rollout(make_prompts(s, 384, 3, 1, CPU))
    meant = 12 * 2**20 - 1
    assert engine.pool_tokens == meant // TOKEN_BYTES
    assert f'"kv_pool_bytes","value":{meant // (TOKEN_BYTES * BLOCK) * TOKEN_BYTES * BLOCK}}}' in stream.getvalue()


def test_a_pool_smaller_than_the_batch_makes_waves_and_evicts_nothing(monkeypatch):
    """Two sequences of two blocks each, beside the library's own two blocks, fit a pool of seven."""
    s = tiny(engine="hf_paged", max_response_length=240)
    engine = paged(model := loud(build_actor(s, 1, CPU)), s, stream=(stream := io.StringIO()))
    engine.pool_tokens = 7 * BLOCK
    running = []
    finish = Scheduler.finish_request
    monkeypatch.setattr(Scheduler, "finish_request", lambda self, name: (
        running.append(len(self.active_requests)), finish(self, name)))  # fmt: skip
    evicted = "transformers.generation.continuous_batching.offloading_manager.OffloadingManager.offload_requests"
    monkeypatch.setattr(evicted, lambda self: pytest.fail("a request was evicted"))
    prompts = make_prompts(s, 384, 3, 1, CPU)
    ours = engine.rollout(prompts).tolist()
    assert ours == HfGenerate(model, s, CPU, sample=False).rollout(prompts).tolist()
    assert max(running) == 2
    assert '"wave_sequences","value":2' in stream.getvalue()


def test_a_pool_without_room_for_one_sequence_is_a_device_out_of_memory():
    s = tiny(engine="hf_paged", kv_reservation="0.001", capacity_mib=64, capacity_source="device")
    with pytest.raises(torch.OutOfMemoryError, match="No available memory for the cache blocks"):
        run_events(s)


def test_the_librarys_own_refusal_of_a_pool_is_a_device_out_of_memory(tmp_path):
    """A pool that no host holds: transformers compares it with what is free, and raises Python's MemoryError."""
    folder = write_trial(tmp_path / "a", engine="hf_paged", kv_reservation="1", capacity_mib=2**30,
                         capacity_source="device")  # fmt: skip
    found = failure(folder)
    assert found["exception_types"] == ["torch.OutOfMemoryError"]
    assert "Memory footprint" in found["message"]


def failure(folder) -> dict:
    assert child.main(folder) == 10
    (found,) = (e for e in events_of(folder) if e["event"] == "failure")
    return found


def raise_in_the_thread(monkeypatch, error: BaseException, at_call: int = 3) -> None:
    """The model runner raises `error` at its third batch, where a real one would run out of memory."""
    runner = hf_paged.ContinuousBatchingManager._generation_step
    calls = []

    def step(self):
        calls.append(threading.current_thread())
        if len(calls) == at_call:
            assert threading.current_thread() is not threading.main_thread()
            raise error
        return runner(self)

    monkeypatch.setattr(hf_paged.ContinuousBatchingManager, "_generation_step", step)


@pytest.mark.parametrize("resident", [True, False])
def test_an_out_of_memory_of_the_background_thread_is_the_trials_own(tmp_path, monkeypatch, capfd, resident):
    text = "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 15.99 GiB"
    raise_in_the_thread(monkeypatch, torch.OutOfMemoryError(text))
    before = threading.active_count()
    folder = write_trial(tmp_path / "a", engine="hf_paged", free_cache_engine=not resident)
    found = failure(folder)
    assert (found["stage"], found["step"]) == ("rollout", 1)
    assert found["exception_types"] == ["torch.OutOfMemoryError"]
    assert (found["message"], found["requested_alloc_bytes"]) == (text, round(2.5 * 2**30))
    assert threading.active_count() == before
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err.count("OutOfMemoryError") == 1  # once, by the trial
    assert sys.prefix not in printed.err  # and without the folders of this machine
    diagnosis = diagnose_attempt(
        exception_types=found["exception_types"], message=found["message"], failure_stage=found["stage"],
        exit_code=10, signal=None, timed_out=False, kernel_oom=None, last_stage="rollout", text=printed.err,
    )  # fmt: skip
    assert (diagnosis.failure_class, diagnosis.stage) == ("device_memory", "rollout")


def test_any_other_exception_of_the_thread_arrives_as_it_was_raised(monkeypatch):
    error = RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")
    raise_in_the_thread(monkeypatch, error)
    s = tiny(engine="hf_paged")
    model = build_actor(s, 1, CPU)
    with pytest.raises(RuntimeError) as caught:
        paged(model, s).rollout(make_prompts(s, 384, 3, 1, CPU))
    assert caught.value is error
    assert model.config._attn_implementation == "sdpa"


def test_a_request_that_fails_alone_fails_the_rollout(monkeypatch):
    def refuse(self, state):
        raise ValueError("no such request")

    monkeypatch.setattr(Scheduler, "add_waiting_request", refuse)
    s = tiny(engine="hf_paged")
    before = threading.active_count()
    with pytest.raises(RuntimeError, match="no such request"):
        paged(build_actor(s, 1, CPU), s).rollout(make_prompts(s, 384, 3, 1, CPU))
    assert threading.active_count() == before


def test_an_interrupt_ends_the_thread(monkeypatch):
    def interrupt(self, timeout):
        raise KeyboardInterrupt

    monkeypatch.setattr(hf_paged.ContinuousBatchingManager, "get_result", interrupt)
    s = tiny(engine="hf_paged")
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        paged(build_actor(s, 1, CPU), s).rollout(make_prompts(s, 384, 3, 1, CPU))
    assert threading.active_count() == before


@pytest.mark.parametrize("resident", [True, False])
def test_sampling_follows_the_trials_seed_alone(resident):
    s = tiny(engine="hf_paged", free_cache_engine=not resident, max_response_length=40)
    model = build_actor(s, 1, CPU)
    prompts = make_prompts(s, 384, 3, 1, CPU)
    engine = paged(model, s, sample=True)
    drawn = []
    for seed in (5, 5, 6):  # the first makes the pool, which must not move the generators
        torch.manual_seed(seed)
        drawn.append(engine.rollout(prompts)[:, 24:].tolist())
    assert drawn[0] == drawn[1] != drawn[2]
    assert all(len(set(row)) > 20 for row in drawn[0])


def test_sampling_is_from_the_whole_distribution():
    """Flat logits: every token is equally likely, and all but a few of the vocabulary turn up."""
    s = tiny(engine="hf_paged", max_response_length=200, train_batch_size=8, max_num_seqs=16)
    model = build_actor(s, 1, CPU)
    with torch.no_grad():
        model.head.weight.zero_()
    torch.manual_seed(0)
    ids = paged(model, s, sample=True).rollout(make_prompts(s, 384, 3, 1, CPU))
    vocab = model.config.vocab_size
    assert ids.shape == (16, 224)
    seen = ids[:, 24:].unique().numel()
    expected = vocab * (1 - (1 - 1 / vocab) ** (16 * 200))
    assert abs(seen - expected) < 0.05 * vocab


def test_a_trial_records_its_pool():
    found = facts(run_events(tiny(engine="hf_paged", total_training_steps=1)))
    assert found["wave_sequences"] == 4  # max_num_seqs
    assert found["kv_pool_bytes"] == (4 + hf_paged.PADDING_BLOCKS) * BLOCK * TOKEN_BYTES
