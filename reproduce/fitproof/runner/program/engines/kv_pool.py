"""Key/value pools: the size that a reservation gives one, and the static pool of the cuda_graph engine, its layout and
how prefill writes into it.
"""

import torch
from transformers import PretrainedConfig

from ....errors import SettingsError
from ....schema.settings import Settings
from .. import device as device_ops


def kv_shape(config: PretrainedConfig) -> tuple[int, int, int]:
    """(layers, key/value heads, width of a head): a token's keys and values are twice their product."""
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return config.num_hidden_layers, config.num_key_value_heads, head_dim


def pool_tokens(
    s: Settings, bytes_per_token: int, device: torch.device, reserved_bytes: int, wanted: int, least: int
) -> int:
    """Tokens the pool holds. Without a reservation: `wanted`. With one, vLLM's meaning: everything between what is
    reserved now and that fraction of the capacity, whether the batch needs it or not.

    `least` is what one sequence takes in this engine's layout. Raises torch.OutOfMemoryError where not even that fits,
    as an engine on a full card does.
    """
    if s.kv_reservation is None:
        return wanted
    capacity = s.capacity_mib * 2**20 if s.capacity_mib is not None else device_ops.device_total_bytes(device)
    if capacity is None:
        raise SettingsError("kv_reservation", found="a fraction of no capacity: a CPU trial without capacity_mib",
                            expected="capacity_mib set, or kv_reservation=null")  # fmt: skip
    numerator, denominator = _as_fraction(s.kv_reservation)
    pool = capacity * numerator // denominator - reserved_bytes
    tokens = pool // bytes_per_token
    if tokens < least:
        raise torch.OutOfMemoryError(
            f"No available memory for the cache blocks: kv_reservation={s.kv_reservation} of {capacity} bytes less "
            f"{reserved_bytes} reserved leaves {pool} bytes; one sequence of {s.sequence_length} positions needs "
            f"{least * bytes_per_token}"
        )
    return tokens


def _as_fraction(decimal: str) -> tuple[int, int]:
    """'0.45' -> (45, 100): the product with a byte count is then exact on every machine."""
    whole, _, digits = decimal.partition(".")
    return int(whole + digits), 10 ** len(digits)


class KVPool:
    """One buffer per layer, keys and values together, seen as [2, W, G, L, D]: W sequence slots, G key/value heads,
    L positions. A reservation larger than W slots leaves the rest of each buffer unused but taken.

    Zeroed: a masked position has probability 0, and 0 times uninitialised memory may be NaN.
    """

    def __init__(self, layers: int, heads: int, head_dim: int, slots: int, length: int, tokens: int,
                 dtype: torch.dtype, device: torch.device):  # fmt: skip
        self.slots, self.length = slots, length
        used = slots * length * heads * head_dim
        self._buffers = [torch.zeros(2, tokens * heads * head_dim, dtype=dtype, device=device) for _ in range(layers)]
        shape = (slots, heads, length, head_dim)
        self.keys = [b[0, :used].view(shape) for b in self._buffers]
        self.values = [b[1, :used].view(shape) for b in self._buffers]

    @property
    def nbytes(self) -> int:
        return sum(b.nbytes for b in self._buffers)


class PrefillWriter:
    """Stands where transformers expects a cache: stores what a prompt's forward pass computes for sequences
    `first` and following, and hands keys and values back unchanged, since a prompt attends only to itself."""

    def __init__(self, pool: KVPool, first: int):
        self.pool, self.first = pool, first

    def update(self, keys: torch.Tensor, values: torch.Tensor, layer: int, *_: object, **__: object):
        """`keys` and `values` are [b, G, P, D]."""
        rows = slice(self.first, self.first + keys.shape[0])
        self.pool.keys[layer][rows, :, : keys.shape[2]].copy_(keys)
        self.pool.values[layer][rows, :, : values.shape[2]].copy_(values)
        return keys, values
