"""4-bit layers and 8-bit optimizers without a device: which tensors live when, by bitsandbytes' own source."""

import ast
import functools
import random
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from fitproof.errors import EnvironmentLacks
from fitproof.predict.prediction import predict
from fitproof.runner import bnb
from fitproof.schema.settings import resolve
from fitproof.simulate import executor, nf4
from fitproof.simulate.bnb import Bitsandbytes
from fitproof.simulate.executor import simulate
from fitproof.simulate.profile import load_profile
from fitproof.simulate.tape import Tape

PROFILE = load_profile("h200")


def small(**given):
    """The smallest catalogue model above the sizes below which bitsandbytes does something else."""
    lengths = dict(train_batch_size=4, rollout_n=2, max_prompt_length=64, max_response_length=64, actor_micro_batch=2)
    return resolve(**{"model": "Qwen3-0.6B", **lengths, **given})


def ending(events) -> tuple[int, int]:
    """(allocated bytes, driver bytes) at the end."""
    live, driver = {}, 0
    for event in events:
        if event[0] == "alloc":
            live[event[1]] = event[2]
        elif event[0] == "free":
            live.pop(event[1], None)
        elif event[0] == "driver":
            driver += event[1]
    return sum(live.values()), driver


def at(events, stage: str, step: int = 1) -> int:
    """Allocated bytes when the stage of a step begins."""
    return ending(events[: events.index(("stage", (stage, step)))])[0]


def state_bytes(simulation) -> int:
    """What the first step leaves behind: optimizer state, once workspaces are taken off."""
    events = simulation.events
    between = events[events.index(("stage", ("rollout", 1))) : events.index(("stage", ("rollout", 2)))]
    workspaces = sum(e[2] for e in between if e[0] == "alloc" and "workspace" in simulation.labels[e[1]])
    return at(events, "rollout", 2) - at(events, "rollout", 1) - workspaces


def own_choice():
    """bitsandbytes' function, out of a module that only a CUDA build can import."""
    source = Path(find_spec("bitsandbytes").origin).parent / "backends" / "cuda" / "ops.py"
    name = "_gemm_4bit_use_custom_cuda"
    tree = ast.parse(source.read_text(encoding="utf-8"))
    function = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name)
    numbers = {t.id: n.value.value for n in ast.walk(tree) if isinstance(n, ast.Assign)
               for t in n.targets if isinstance(t, ast.Name) and t.id in ("_GEMM_4BIT_CUSTOM_FLOOR_M",
                                                                         "_gemm_4bit_custom_max_m")}  # fmt: skip
    assert numbers["_GEMM_4BIT_CUSTOM_FLOOR_M"] == nf4._ALWAYS_FUSED_ROWS
    text = source.read_text(encoding="utf-8")
    assert f"_gemm_4bit_custom_max_m = {nf4._MOST_FUSED_ROWS}\n" in text
    names = dict(functools=functools, torch=torch, _gpu_dispatch_props=lambda index: (PROFILE.multiprocessors, 9, 0),
                 _GEMM_4BIT_CUSTOM_FLOOR_M=nf4._ALWAYS_FUSED_ROWS)  # fmt: skip
    exec(compile(ast.Module([function], []), str(source), "exec"), names)
    return names[name]


def test_the_choice_of_kernels_is_bitsandbytes():
    theirs = own_choice()
    draw = random.Random(0)
    sizes = [64, 128, 256, 960, 1024, 1536, 2048, 2560, 3072, 4096, 5120, 8192, 9728, 12288, 14336, 25600]
    rows = [1, 4, 5, 6, 7, 8, 16, 17, 32, 33, 48, 64, 65, 320, 321, 512, 513, 1536]
    seen = set()
    for _ in range(5000):
        m = draw.choice(rows)
        n, k = draw.choice(sizes), draw.choice(sizes)
        dtype = draw.choice([torch.bfloat16, torch.float16, torch.float32])
        fused = nf4.uses_fused_kernel(PROFILE, dtype, m, n, k)
        assert fused == theirs(0, dtype, m, n, k), (dtype, m, n, k)
        seen.add(fused)
    assert seen == {True, False}
    assert not nf4.uses_fused_kernel(PROFILE, torch.bfloat16, 1537, 128, 1024)
    assert not nf4.uses_fused_kernel(PROFILE, torch.bfloat16, 1, 128, 96)  # rows of the weight straddle its blocks


def memory_events(tape: Tape) -> list[tuple]:
    return [e[:1] + e[2:] if e[0] == "alloc" else e for e in tape.events]


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_unfused_product_is_that_of_its_source(dtype, has_bias):
    """`_gemm_4bit_default_impl` computes what the CUDA fallback does, in dispatched operations."""
    library = bnb.library("a test")
    from bitsandbytes.backends.default.ops import _gemm_4bit_default_impl

    x, bias = torch.randn(3, 5, 192).to(dtype), torch.randn(128).to(dtype) if has_bias else None
    packed, state = library.functional.quantize_4bit(
        torch.randn(128, 192).to(dtype), compress_statistics=True, quant_type="nf4"
    )
    real = Tape(device_type="cpu")
    with real:
        result = _gemm_4bit_default_impl(x, packed, state.shape, state.state2.absmax, 64, "nf4", bias, state.absmax,
                                         state.state2.code, state.offset)  # fmt: skip
        del result
    tape = Tape()
    stand_in = nf4.Nf4(PROFILE, lambda: None)
    weight = torch.empty(128, 192, dtype=dtype, device="meta")
    _, its_state = stand_in.quantize(weight)
    x, bias = x.to("meta"), bias if bias is None else bias.to("meta")
    with pytest.MonkeyPatch.context() as patch, tape:
        patch.setattr(nf4, "uses_fused_kernel", lambda *_: False)
        result = stand_in.product(x, its_state, bias)
        del result
    assert sorted(e[1:] for e in memory_events(tape) if e[0] == "alloc") == sorted(
        e[1:] for e in memory_events(real) if e[0] == "alloc"
    )
    assert {e[0] for e in tape.events} == {"alloc", "free"}


def test_a_packed_base_is_as_large_as_a_real_one():
    library = bnb.library("a test")
    weight = torch.randn(192, 128)
    packed, state = library.functional.quantize_4bit(weight, compress_statistics=True, quant_type="nf4")
    stand_in = nf4.Nf4(PROFILE, lambda: None)
    its_packed, its_state = stand_in.quantize(weight.to("meta"))

    def parts(packed, state):
        tensors = [packed, state.absmax, state.code, state.offset, state.state2.absmax, state.state2.code]
        return [(t.shape, t.dtype, t.untyped_storage().nbytes()) for t in tensors]

    assert parts(its_packed, its_state) == parts(packed, state)
    assert (its_state.shape, its_state.dtype) == (state.shape, state.dtype)


def test_the_base_shrinks_and_nothing_else():
    plain, packed = (simulate(small(quantization=q), PROFILE) for q in ("none", "nf4"))
    before, after = (at(s.events, "rollout") for s in (plain, packed))
    linear = 28 * (1024 * (2048 + 2 * 1024 + 3 * 3072) + 2048 * 1024)  # Qwen3-0.6B: weights of 28 layers' 7 matrices
    small_ones = 28 * 7 * (4 + 64 + 1024) + 1024  # offset and tables of each, and one table for all
    # Weights per block are multiples of 64 * 256, so scales of scales are full.
    assert before - after == 2 * linear - (linear // 2 + linear // 64 + 4 * (linear // 64 // 256) + small_ones)
    assert packed.facts == plain.facts
    names = [[e[1] for e in s.events if e[0] == "stage"] for s in (plain, packed)]
    assert names[0] == names[1]


def test_a_backward_pass_unpacks_one_weight_at_a_time():
    packed = simulate(small(quantization="nf4", gradient_checkpointing=False), PROFILE)
    weight = 3072 * 1024 * 2
    unpacked, most, stage = set(), 0, None
    for event in packed.events:
        if event[0] == "stage":
            stage = event[1]
        elif event[0] == "alloc" and stage == ("actor_update", 1):
            if event[2] == weight and packed.labels[event[1]] == "aten::empty":
                unpacked.add(event[1])
                most = max(most, len(unpacked))
        elif event[0] == "free":
            unpacked.discard(event[1])
    assert most == 1


@pytest.mark.parametrize(("optimizer", "bytes_per_value"), [("adamw", 4.0), ("adamw_8bit", 2 + 8 / 256)])
def test_state_of_all_parameters(optimizer, bytes_per_value):
    """torch's has the parameters' dtype, bfloat16; norms are too small for 8 bits, and too small to matter."""
    simulation = simulate(small(adaptation="full", optimizer=optimizer, use_kl=False), PROFILE)
    assert state_bytes(simulation) == pytest.approx(simulation.facts["parameters"] * bytes_per_value, rel=0.001)


def test_lora_matrices_below_4096_elements_keep_32_bits():
    """Qwen3-0.6B's q [1024 -> 2048], k and v [1024 -> 1024], o [2048 -> 1024] with rank 2: of eight matrices a layer
    only q's B and o's A have 4,096 elements."""
    simulation = simulate(small(lora_rank=2, lora_targets="attention", optimizer="adamw_8bit"), PROFILE)
    layer = 6 * 2 * 2048 * 4 + 2 * 2 * (4096 + 4 * 4096 // 256)
    assert state_bytes(simulation) == 28 * layer + 2 * 1024


def test_paged_state_takes_nothing_from_the_allocator():
    given = dict(adaptation="full", use_kl=False)
    ordinary, paged = (simulate(small(optimizer=o, **given), PROFILE) for o in ("adamw_8bit", "paged_adamw_8bit"))
    large = sum(e[1] for e in paged.events if e[0] == "driver" and e[2] == "paged optimizer state")
    assert large > 2 * 0.99 * paged.facts["parameters"]
    assert state_bytes(ordinary) - state_bytes(paged) == large
    kernels = PROFILE.driver_bytes["bitsandbytes"]
    assert ending(paged.events)[1] - ending(ordinary.events)[1] == large
    assert paged.device_slack[0] == large + kernels
    assert paged.device_slack[1] > kernels
    assert ordinary.device_slack == (kernels, kernels)


def test_what_is_guessed_widens_the_interval():
    widths = {}
    for name in ("none", "nf4"):
        prediction = predict(small(quantization=name))
        low, high = prediction.interval["peak_device_used_bytes"]
        reserved = prediction.interval["peak_reserved_bytes"]
        widths[name] = high - low - (reserved[1] - reserved[0])
    assert widths["nf4"] - widths["none"] == 2 * PROFILE.driver_bytes["bitsandbytes"]


def test_a_card_whose_kernels_are_unknown_is_refused():
    with pytest.raises(EnvironmentLacks, match="quantization=nf4"):
        simulate(small(quantization="nf4"), replace(PROFILE, compute_capability=89))
    assert executor.unsupported(small(), replace(PROFILE, compute_capability=89)) is None


def test_a_dry_run_needs_no_bitsandbytes(monkeypatch):
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    s = resolve(model="fitproof/tiny-qwen3", quantization="nf4", optimizer="adamw_8bit")
    assert simulate(s, PROFILE).refusal is None


def test_the_stand_in_loads_its_kernels_once():
    tape = Tape()
    library = Bitsandbytes(tape, PROFILE)
    for _ in range(2):
        library.functional.quantize_4bit(torch.empty(4, 64, device="meta"))
    assert [e for e in tape.events if e[0] == "driver"] == [
        ("driver", PROFILE.driver_bytes["bitsandbytes"], "bitsandbytes")
    ]
