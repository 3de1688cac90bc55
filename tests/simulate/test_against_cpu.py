"""The same trial for real on a CPU, under the same tape: what the seams replace makes the same allocations."""

import gc
import io
from collections import Counter, defaultdict

import pytest
import torch
from fitproof.runner import bnb
from fitproof.runner.program import trial
from fitproof.schema.settings import resolve
from fitproof.simulate import nf4
from fitproof.simulate.executor import TapeMeter, TapeRecorder, simulate
from fitproof.simulate.profile import load_profile
from fitproof.simulate.tape import Tape

PROFILE = load_profile("h200")
# What only a GPU run has: workspaces, the state of the random generator, ids packed for the host.
GPU_ONLY = {"cublas_workspace", "cublaslt_workspace", "graph_generator_state", "packed for the host"}
TABLE_BYTES = 1024  # 256 values of an 8-bit code: copied to a GPU once, on a CPU used where they are
STEP_BYTES = 4  # AdamW counts steps in one host scalar per parameter; on a CPU run host is device


def on_cpu(s) -> Tape:
    tape = Tape(device_type="cpu")
    engine = torch.autograd.graph._engine_run_backward

    def run_backward(*args, **kwargs):
        with tape.backward():
            return engine(*args, **kwargs)

    gc.collect()
    gc.disable()
    with pytest.MonkeyPatch.context() as patch, tape:
        patch.setattr(torch.autograd, "_engine_run_backward", run_backward)
        recorder = TapeRecorder(io.StringIO(), tape, TapeMeter(tape, PROFILE, s))
        trial.run(s, seed=0, device=torch.device("cpu"), recorder=recorder)
    gc.enable()
    return tape


def sizes_by_stage(events, labels) -> dict[tuple[str, int], Counter]:
    sizes, stage = defaultdict(Counter), None
    for event in events:
        if event[0] == "stage":
            stage = event[1]
        elif event[0] == "alloc" and labels[event[1]] not in GPU_ONLY:
            sizes[stage][event[2]] += 1
    return sizes


def live(events, labels) -> Counter:
    """Sizes of what lives at the end of the last step."""
    sizes = {}
    for event in events:
        if event[0] == "alloc" and labels[event[1]] not in GPU_ONLY:
            sizes[event[1]] = event[2]
        elif event[0] == "free":
            sizes.pop(event[1], None)
    return Counter(sizes.values())


@pytest.mark.parametrize(
    "given",
    [dict(), dict(gradient_checkpointing=False), dict(adaptation="full", reference="copy"),
     dict(model="fitproof/tiny-llama", logits_chunk=50, dtype="float32")],
    ids=lambda given: "-".join(map(str, given)) or "default",
)  # fmt: skip
def test_allocations_of_a_real_run(given):
    # eager: the attention backends of a CPU are others
    s = resolve(**{**dict(model="fitproof/tiny-qwen3", train_batch_size=4, rollout_n=2, max_prompt_length=16,
                          max_response_length=70, max_num_seqs=4, actor_micro_batch=2,
                          attn_implementation="eager"), **given})  # fmt: skip
    tape, simulation = on_cpu(s), simulate(s, PROFILE)
    real = sizes_by_stage(tape.events, tape.labels)
    simulated = sizes_by_stage(simulation.events, simulation.labels)
    assert real.keys() == simulated.keys()
    for stage, sizes in real.items():
        if stage[0] == "rollout":  # every decode step here, one per bucket there; and one kernel for the norm
            assert set(simulated[stage]) <= set(sizes)
            continue
        if stage[0] == "actor_update":
            for counts in (sizes, simulated[stage]):
                counts.pop(STEP_BYTES, None)
        assert simulated[stage] == sizes, stage


@pytest.fixture
def _bitsandbytes(monkeypatch):
    """bitsandbytes with what it makes once a process already made: on a CPU host is device."""
    library = bnb.library("a test")
    made = {signed: library.functional.create_dynamic_map(signed) for signed in (True, False)}
    monkeypatch.setattr(library.functional, "create_dynamic_map", lambda signed=True: made[signed])
    library.functional.quantize_4bit(torch.ones(2, 64), compress_statistics=True, quant_type="nf4")


@pytest.mark.usefixtures("_bitsandbytes")
@pytest.mark.parametrize(
    "given",
    [dict(quantization="nf4"),
     dict(quantization="nf4", gradient_checkpointing=False, dtype="float32", model="fitproof/tiny-llama"),
     dict(quantization="nf4", rollout_weights="copy", reference="copy"),
     dict(quantization="nf4", algorithm="opd", teacher="fitproof/tiny-qwen3", use_kl=False),
     dict(quantization="nf4", algorithm="ppo", optimizer="adamw_8bit"),
     dict(optimizer="adamw_8bit", adaptation="full", reference="copy")],
    ids=lambda given: "-".join(map(str, given.values())),
)  # fmt: skip
def test_allocations_of_bitsandbytes(given, monkeypatch):
    """Products excepted: a CPU's unpack below the dispatcher, so the simulated ones are those of the fused kernel."""
    monkeypatch.setattr(nf4, "uses_fused_kernel", lambda *_: True)
    s = resolve(**{**dict(model="fitproof/tiny-qwen3", train_batch_size=4, rollout_n=2, max_prompt_length=16,
                          max_response_length=70, max_num_seqs=4, actor_micro_batch=2,
                          attn_implementation="eager"), **given})  # fmt: skip
    tape, simulation = on_cpu(s), simulate(s, PROFILE)
    real = sizes_by_stage(tape.events, tape.labels)
    simulated = sizes_by_stage(simulation.events, simulation.labels)
    assert real.keys() == simulated.keys()
    if s.quantization == "nf4":
        simulated["initializing", 0][TABLE_BYTES] -= 1
    if s.optimizer == "adamw_8bit":
        # The tiny adapters' matrices are too small for 8 bits, so their optimizer needs no table.
        simulated["actor_update" if s.adaptation == "full" else "critic_update", 1][TABLE_BYTES] -= 2
    for stage, sizes in real.items():
        if stage[0] == "rollout":
            assert set(simulated[stage]) <= set(sizes)
            continue
        if stage[0].endswith("_update"):
            for counts in (sizes, simulated[stage]):
                counts.pop(STEP_BYTES, None)
        assert +simulated[stage] == sizes, stage
    assert live(simulation.events, simulation.labels) - live(tape.events, tape.labels) <= Counter({TABLE_BYTES: 5})
