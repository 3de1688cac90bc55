"""What could harm the card, or cannot be done here, is refused before anything starts."""

import importlib.util

from ..errors import EnvironmentLacks
from ..schema.models import get_model
from ..schema.settings import Settings

# Two 8-bit states and their block maxima; tensors too small to be paged or quantised are the small rest.
_BYTES_PER_PARAMETER = 2.25
_LARGEST_SHARE = 4
INSTALL_VLLM = "pip install 'vllm>=0.33'"


def refuse_unsafe_paging(settings: Settings, free_bytes: int) -> None:
    """Raise EnvironmentLacks for a paged optimizer whose state may exceed a quarter of the device's free memory.

    Paged state is managed memory: asking for more of it than the card has free can hang the GPU.
    """
    if settings.optimizer != "paged_adamw_8bit":
        return
    state = int(trainable_parameters(settings) * _BYTES_PER_PARAMETER)
    if state * _LARGEST_SHARE >= free_bytes:
        raise EnvironmentLacks(
            f"optimizer=paged_adamw_8bit for {settings.model_id}",
            found=f"about {state / 2**30:.2f} GiB of managed state, {free_bytes / 2**30:.2f} GiB free on the device",
            expected="state under a quarter of the free memory: more can hang the card",
            hint="--set optimizer=adamw_8bit  # the same state in ordinary memory",
        )


def refuse_missing_engine(settings: Settings) -> None:
    """Raise EnvironmentLacks for a rollout engine that is not installed."""
    if settings.rollout_engine == "vllm" and importlib.util.find_spec("vllm") is None:
        raise EnvironmentLacks(
            "rollout_engine=vllm", found="vllm is not installed", expected="a package of its own, never required",
            hint=INSTALL_VLLM + "  # or another rollout_engine",
        )  # fmt: skip


def trainable_parameters(settings: Settings) -> int:
    """An upper bound of the parameters under training: all, or the adapters' (fused projections counted apart)."""
    model = get_model(settings.model_id)
    c = model.config
    hidden, inner, layers = c["hidden_size"], c["intermediate_size"], c["num_hidden_layers"]
    head = c.get("head_dim") or hidden // c["num_attention_heads"]
    queries, keys = c["num_attention_heads"] * head, c["num_key_value_heads"] * head
    attention = [(hidden, queries), (hidden, keys), (hidden, keys), (queries, hidden)]
    mlp = [(hidden, inner), (hidden, inner), (inner, hidden)]
    weights = layers * sum(a * b for a, b in attention + mlp)
    full = model.parameters or weights + 2 * c["vocab_size"] * hidden
    critic = full if settings.algorithm == "ppo" else 0
    if settings.adaptation == "full":
        return full + critic
    return layers * settings.lora_rank * sum(a + b for a, b in attention + mlp) + critic
