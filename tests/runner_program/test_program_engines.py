import gc
import io
import weakref
from dataclasses import replace

import pytest
import torch
from fitproof.runner.program.engines import cuda_graph
from fitproof.runner.program.engines.cuda_graph import CudaGraphEngine, buckets
from fitproof.runner.program.engines.hf_generate import HfGenerate
from fitproof.runner.program.engines.kv_pool import pool_tokens
from fitproof.runner.program.models import LanguageModel, build_actor, build_frozen, synchronise
from fitproof.runner.program.recorder import CpuMeter, Recorder
from fitproof.runner.program.sequences import make_prompts
from fitproof.schema.models import catalogue
from program_cases import CPU, TINY, facts, run_events, tiny


def quiet() -> Recorder:
    return Recorder(io.StringIO(), CpuMeter())


def loud(model: LanguageModel) -> LanguageModel:
    """Make the layers, and an adapter, matter to the choice of tokens: fresh random weights mostly repeat the input."""
    with torch.no_grad():
        for p in (p for layer in model.trunk.layers for p in layer.parameters() if p.requires_grad and p.ndim == 2):
            p.mul_(20.0 if model.adapter is not None else 5.0)
    return model


def greedy(s, model: LanguageModel, vocab: int = 384) -> tuple[torch.Tensor, torch.Tensor]:
    prompts = make_prompts(s, vocab, 3, 1, CPU)
    ours = CudaGraphEngine(model, s, CPU, quiet(), sample=False).rollout(prompts)
    theirs = HfGenerate(model, s, CPU, sample=False).rollout(prompts)
    return ours, theirs


@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("adaptation", ["lora", "full"])
@pytest.mark.parametrize("waves", [6, 4])
def test_greedy_equals_generate(name, adaptation, waves):
    s = tiny(model=name, adaptation=adaptation, max_num_seqs=waves, max_response_length=80)
    model = build_actor(s, 1, CPU)
    ours, theirs = greedy(s, loud(model))
    assert ours.tolist() == theirs.tolist()
    assert len({tuple(row) for row in ours[:, 24:].tolist()}) > 1  # the prompts lead to different responses


@pytest.mark.parametrize("padding", ["mask", "none"])
@pytest.mark.parametrize("targets", ["all_linear", "attention"])
@pytest.mark.parametrize("model_type", ["qwen2", "phi3", "granite"])
def test_greedy_equals_generate_for_the_other_architectures(model_type, padding, targets, monkeypatch):
    real = next(m for m in catalogue().values() if m.model_type == model_type)
    small = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                 num_key_value_heads=2, vocab_size=400)  # fmt: skip
    config = {**real.config, **small}
    config = {k: v for k, v in config.items() if not k.endswith("_token_id")}
    if model_type == "granite":
        config |= dict(
            embedding_multiplier=12.0, attention_multiplier=0.1, residual_multiplier=0.22, logits_scaling=8.0
        )
    if model_type == "phi3":
        config |= dict(pad_token_id=0, bos_token_id=1, eos_token_id=2)
    s = tiny(model=real.model_id, max_num_seqs=4, lora_targets=targets, padding=padding, max_response_length=70)
    monkeypatch.setitem(catalogue(), real.model_id, replace(real, config=config))
    model = loud(build_actor(s, 1, CPU))
    with torch.no_grad():
        for name, p in model.causal.named_parameters():
            if name.endswith("bias"):
                p.normal_(0, 0.1)
    ours, theirs = greedy(s, model)
    assert ours.tolist() == theirs.tolist()


def test_resident_pool_sees_updated_weights():
    s = tiny(free_cache_engine=False)
    model = build_actor(s, 1, CPU)
    engine = CudaGraphEngine(model, s, CPU, quiet(), sample=False)
    prompts = make_prompts(s, 384, 3, 1, CPU)
    before = engine.rollout(prompts)
    loud(model)
    after = engine.rollout(prompts)
    assert before.tolist() != after.tolist()
    assert after.tolist() == HfGenerate(model, s, CPU, sample=False).rollout(prompts).tolist()


def test_graphs_are_dropped_when_the_weights_move():
    s = tiny(free_cache_engine=False)
    model = build_actor(s, 1, CPU)
    engine = CudaGraphEngine(model, s, CPU, quiet())
    prompts = make_prompts(s, 384, 3, 1, CPU)
    engine.rollout(prompts)
    first = engine._state
    engine.rollout(prompts)
    assert engine._state is first
    model.offload()
    model.load()
    engine.rollout(prompts)
    assert engine._state is not first


def test_release_frees_the_pool_at_once():
    s = tiny(free_cache_engine=False)
    engine = CudaGraphEngine(build_actor(s, 1, CPU), s, CPU, quiet())
    engine.rollout(make_prompts(s, 384, 3, 1, CPU))
    pool = weakref.ref(engine._state.pool)
    gc.disable()  # no cycle may stand between the pool and its end
    try:
        engine.release()
        assert pool() is None
    finally:
        gc.enable()


def test_merged_copy_decodes_like_the_adapted_model():
    s = tiny(rollout_weights="copy")
    actor, copy = loud(build_actor(s, 1, CPU)), build_frozen(s, s.model_id, 1, CPU)
    prompts = make_prompts(s, 384, 3, 1, CPU)
    synchronise(copy, actor)
    adapted = HfGenerate(actor, s, CPU, sample=False).rollout(prompts)
    assert HfGenerate(copy, s, CPU, sample=False).rollout(prompts).tolist() == adapted.tolist()


def test_sampling_follows_the_softmax():
    s = tiny()
    wave = cuda_graph._Wave.__new__(cuda_graph._Wave)
    wave.sample = True
    logits = torch.tensor([0.0, 1.0, 2.0, -1.0]).repeat(40_000, 1)
    torch.manual_seed(0)
    share = torch.bincount(wave._draw(logits.clone()), minlength=4) / 40_000
    torch.testing.assert_close(share, torch.softmax(logits[0], 0), atol=0.01, rtol=0.05)
    assert s.rollout_engine == "cuda_graph"


@pytest.mark.parametrize(("prompt", "response"), [(24, 1), (24, 2), (24, 65), (24, 64), (512, 512), (1024, 2048)])
def test_buckets_cover_every_step_once(prompt, response):
    covered = [p for first, last, length in buckets(prompt, response) for p in range(first, last)]
    assert covered == list(range(prompt, prompt + response - 1))
    for _, last, length in buckets(prompt, response):
        assert last <= length <= prompt + response
    assert len(buckets(prompt, response)) <= cuda_graph.BUCKETS


def test_edges_decode_the_ends_of_each_bucket(monkeypatch):
    steps = []
    original = cuda_graph._Wave._step
    monkeypatch.setattr(
        cuda_graph._Wave, "_step", lambda self, n: (steps.append((int(self.slot), n)), original(self, n))
    )
    s = tiny(decode_coverage="edges", max_response_length=100, max_num_seqs=6)
    CudaGraphEngine(build_actor(s, 1, CPU), s, CPU, quiet()).rollout(make_prompts(s, 384, 3, 1, CPU))
    wanted = [*range(24, 32), *range(80, 88), *range(88, 96), *range(115, 123)]
    assert [slot for slot, _ in steps] == wanted
    assert {n for _, n in steps} == {88, 124}


def test_reservation_sizes_the_pool_and_the_waves():
    per_token = 2 * 2 * 2 * 16 * 4  # key and value, layers, heads, width, float32
    s = tiny(kv_reservation="0.5", capacity_mib=64, capacity_source="device")
    assert pool_tokens(s, per_token, CPU, 1000, wanted=7, least=34) == (32 * 2**20 - 1000) // per_token
    with pytest.raises(torch.OutOfMemoryError, match="No available memory for the cache blocks"):
        pool_tokens(s, per_token, CPU, 32 * 2**20 - per_token * 33, wanted=7, least=34)
    assert pool_tokens(s, per_token, CPU, 32 * 2**20 - per_token * 34, wanted=7, least=34) == 34


def test_a_pool_larger_than_the_batch_is_still_taken():
    s = tiny(kv_reservation="0.9", capacity_mib=256, capacity_source="device", total_training_steps=1)
    found = facts(run_events(s))
    assert found["wave_sequences"] == 4  # max_num_seqs
    assert found["kv_pool_bytes"] > 100 * 2**20


def test_forced_lengths():
    for engine in (HfGenerate, lambda m, s, d: CudaGraphEngine(m, s, d, quiet())):
        s = tiny(engine="hf_generate" if engine is HfGenerate else "cuda_graph")
        prompts = make_prompts(s, 384, 3, 1, CPU)
        ids = engine(build_actor(s, 1, CPU), s, CPU).rollout(prompts)
        assert ids.shape == (6, 34)
        assert ids[:, :24].tolist() == prompts.ids.tolist()
