"""Two runs that should be one: what they rolled out, and every tensor and field of their last checkpoints.

Read with the standard library alone: a tensor is its bytes in the safetensors file, and nothing else makes it equal.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

ADAPTER, OPTIMIZER, RANDOM, STATE = (
    "adapter_model.safetensors", "actor-optimizer.safetensors", "random.safetensors", "state.json",
)  # fmt: skip
_LENGTH_BYTES = 8


@dataclass(slots=True)
class Comparison:
    """`differences`: one line each, naming the tensor, field or step; empty where everything is equal."""

    is_trajectory_equal: bool
    is_adapter_equal: bool
    is_optimizer_equal: bool
    is_state_equal: bool
    """Every field of state.json and every random generator."""
    differences: list[str] = field(default_factory=list)

    @property
    def is_exact(self) -> bool:
        return (
            self.is_trajectory_equal and self.is_adapter_equal and self.is_optimizer_equal and self.is_state_equal
        )  # fmt: skip


def compare(
    uninterrupted: Path, resumed: Path, trajectory: dict[int, str], others: Iterable[dict[int, str]]
) -> Comparison:
    """Compare two checkpoint folders, and the rollouts (step -> digest) of one run with those of the other's attempts.

    The attempts of the other run must agree with `trajectory` wherever they say something and together say as much.
    Raises OSError or ValueError where a folder holds no such checkpoint.
    """
    rollouts = _trajectory_differences(trajectory, list(others))
    adapter = tensor_differences(uninterrupted / ADAPTER, resumed / ADAPTER, "adapter")
    optimizer = tensor_differences(uninterrupted / OPTIMIZER, resumed / OPTIMIZER, "optimizer")
    state = tensor_differences(uninterrupted / RANDOM, resumed / RANDOM, "random generator")
    state += _field_differences(uninterrupted / STATE, resumed / STATE)
    return Comparison(not rollouts, not adapter, not optimizer, not state, [*rollouts, *adapter, *optimizer, *state])


def _trajectory_differences(wanted: dict[int, str], attempts: list[dict[int, str]]) -> list[str]:
    if not wanted:
        return ["trajectory: the uninterrupted run says nothing of its rollouts"]
    found = [
        f"trajectory: step {step} is {digest[:16]}, uninterrupted {wanted.get(step, 'none')[:16]}"
        for attempt in attempts
        for step, digest in sorted(attempt.items())
        if wanted.get(step) != digest
    ]
    missing = sorted(set(wanted) - {step for attempt in attempts for step in attempt})
    return found + [f"trajectory: step {step} was not rolled out by the interrupted run" for step in missing]


def tensor_differences(one: Path, other: Path, what: str) -> list[str]:
    """Tensors of two safetensors files that differ in bytes, type or shape, or stand in one file only."""
    first, second = _tensors(one), _tensors(other)
    lines = [f"{what}: {name} stands in one run only" for name in sorted(first.keys() ^ second.keys())]
    for name in sorted(first.keys() & second.keys()):
        (kind, shape, data), (other_kind, other_shape, other_data) = first[name], second[name]
        if (kind, shape) != (other_kind, other_shape):
            lines.append(f"{what}: {name} is {kind} {shape} and {other_kind} {other_shape}")
        elif data != other_data:
            count = sum(a != b for a, b in zip(data, other_data, strict=True))
            lines.append(f"{what}: {name} differs in {count} of {len(data)} bytes")
    return lines


def _tensors(path: Path) -> dict[str, tuple[str, list[int], memoryview]]:
    """Name -> (dtype, shape, bytes). The format: a length, a JSON header with offsets, the bytes."""
    data = memoryview(path.read_bytes())
    start = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "little")
    header = json.loads(bytes(data[_LENGTH_BYTES:start]))
    return {
        name: (entry["dtype"], entry["shape"],
               data[start + entry["data_offsets"][0] : start + entry["data_offsets"][1]])
        for name, entry in header.items()
        if name != "__metadata__"
    }  # fmt: skip


def _field_differences(one: Path, other: Path) -> list[str]:
    first, second = (_flat(json.loads(path.read_text(encoding="utf-8"))) for path in (one, other))
    return [
        f"state: {name} is {first.get(name)!r} and {second.get(name)!r}"
        for name in sorted(first.keys() | second.keys())
        if (name in first, first.get(name)) != (name in second, second.get(name))
    ]


def _flat(value: object, name: str = "") -> dict[str, object]:
    """Leaves of a JSON document under dotted names."""
    if not isinstance(value, dict):
        return {name: value}
    return {k: v for key, item in value.items() for k, v in _flat(item, f"{name}.{key}" if name else key).items()}
