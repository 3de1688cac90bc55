"""Rows of what bitsandbytes does: a base stored in 4 bits, optimizer state in 8 bits, and that in managed memory."""

from fitproof.simulate.profile import load_profile
from settings_effects import CLOSE, OTHER, Effect
from settings_table import (
    ADAPTER,
    BF16,
    F32,
    LAYERS,
    MICRO,
    MODEL,
    ORDER,
    PARAMETERS,
    ROTARY,
    SHAPES,
    WORDY,
    WORKSPACE,
    T,
    during,
    since,
)

KERNELS = load_profile("h200").driver_bytes["bitsandbytes"]

# 4 bits: the linear layers' weights, 64 to a scale of 8 bits, 256 scales to a float32 of their own; for each matrix an
# offset and two tables of 16 and 256 values; and one more table of 256 for all models.
_LINEAR = [i * o for shapes in SHAPES.values() for i, o in shapes] * LAYERS
TABLE = 256 * F32
_PACKED = sum(n // 2 + n // 64 + -(-n // (64 * 256)) * F32 + F32 + 16 * F32 + TABLE for n in _LINEAR)
PACKED_MODEL = MODEL - sum(_LINEAR) * BF16 + _PACKED
NF4 = dict(quantization="nf4")


def state(sizes: list[int], width: int) -> int:
    """Bytes of two torch states of `width` for tensors of these sizes."""
    return 2 * sum(sizes) * width


def state_8bit(sizes: list[int]) -> int:
    """From 4,096 elements on a byte for each and a float32 for every 256; float32 below."""
    return 2 * sum(n + -(-n // 256) * F32 if n >= 4096 else n * F32 for n in sizes)


# Rank 8 makes matrices of 512 and 1,024 elements. Of rank 64 only the B of keys and values have less than 4,096.
WIDE = dict(lora_rank=64, lora_alpha=64)
_WIDE = [64 * n for shapes in SHAPES.values() for shape in shapes for n in shape] * LAYERS
FULL = dict(adaptation="full", reference="copy")
_FULL = [512 * 64, *_LINEAR, *[64, 64, 16, 16] * LAYERS, 64]
_WORDS = 8192 * 64  # the one tensor of a tiny model that is large enough to be paged: of 100,000 elements

BITSANDBYTES = [
    Effect(
        change=NF4, live=since("initializing", 0, PACKED_MODEL + TABLE - MODEL),
        # peft adds a float32 adapter's output to a plain layer's in float32, to a 4-bit layer's in its own dtype: there
        # the gradient of the sum is that of the layer's output, here a second tensor [MICRO, T, 64].
        peak=dict(actor_update=PACKED_MODEL + TABLE - MODEL - MICRO * T * 64 * BF16),
        driver=KERNELS, rollouts=OTHER, result=OTHER,
    ),
    Effect(
        # At the peak of an update a weight is unpacked, as a whole: it falls by less.
        change=NF4, on=dict(adapter_dtype="bfloat16"), live=since("initializing", 0, PACKED_MODEL + TABLE - MODEL),
        peak=dict(actor_update="-"),
        driver=KERNELS, rollouts=OTHER, result=OTHER,
    ),
    # Copies of a 4-bit base are packed as well, and equal to it.
    Effect(change=dict(reference="copy"), on=NF4, live=since("initializing", 0, PACKED_MODEL),
           peak=dict(initializing="+")),
    Effect(
        change=dict(rollout_weights="copy"), on=NF4, stages=({"weight_sync"}, set()),
        live={**since("initializing", 0, PACKED_MODEL), ("initializing", 0): PACKED_MODEL + WORKSPACE},
        # A copy rolls out without adapter: in the second step that saves more than a packed copy takes.
        peak={"initializing": "+", ("rollout", 1): "+", ("rollout", 2): "-"},
    ),
    Effect(
        # Scales and tables leave with the weights.
        change=dict(parameter_offload=True), on=NF4,
        live=during(-(PACKED_MODEL - ROTARY + ADAPTER * F32), "reward"), peak=dict(reward="-"),
    ),
    # Optimizer state. Steps of torch's over all tensors at once make temporaries, bitsandbytes' kernels make none.
    Effect(change=dict(optimizer="adamw_8bit"), driver=KERNELS, result=CLOSE),
    Effect(
        change=dict(optimizer="adamw_8bit"), on=WIDE,
        live=since("actor_update", 1, state_8bit(_WIDE) + 2 * TABLE - state(_WIDE, F32)),
        peak=dict(actor_update="-"), driver=KERNELS, result=OTHER,
    ),
    Effect(
        # torch's state has the parameters' 16 bits: small tensors take more with 32.
        change=dict(optimizer="adamw_8bit"), on=FULL,
        live=since("actor_update", 1, state_8bit(_FULL) + 2 * TABLE - state(_FULL, BF16)),
        peak={("actor_update", 1): "-"}, driver=KERNELS, result=OTHER,
    ),
    Effect(
        # The two tables stay.
        change=dict(optimizer_offload=True), on=dict(optimizer="adamw_8bit", **WIDE),
        live={(name, 2): -state_8bit(_WIDE) for name in ORDER[:-1]},
    ),
    Effect(
        change=dict(optimizer="paged_adamw_8bit"), on=dict(optimizer="adamw_8bit"), has_same_events=True,
        is_on_cpu=False,
    ),
    Effect(
        change=dict(optimizer="paged_adamw_8bit"), on=dict(optimizer="adamw_8bit", model_id=WORDY.model_id, **FULL),
        # The peak of the first update comes before there is state.
        live=since("actor_update", 1, -2 * _WORDS), peak={("actor_update", 1): 0}, driver=2 * _WORDS,
        is_on_cpu=False,
    ),
]  # fmt: skip
assert sum(_FULL) == PARAMETERS
assert sum(_WIDE) == 8 * ADAPTER
