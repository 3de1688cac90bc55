"""Tensors in safetensors files, written and read one at a time.

safetensors rather than `torch.save`: it is a plain header and plain bytes, so equal tensors make equal files, nothing
in a damaged or foreign file can run code, and it is what peft loads. The library can only write a dictionary of
tensors that are all in host memory at once, a second copy of parameters and optimizer; the format is simple enough to
write tensor by tensor instead. Reading is the library's.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

import torch
from safetensors import safe_open

from . import device as device_ops

_DTYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
    torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip


class Sink(Protocol):
    def write(self, data: bytes | memoryview) -> object: ...


def write_tensors(file: Sink, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write `tensors`, wherever they live; at most one copy of one of them exists at a time, in host memory."""
    # Widest first, as the library orders them: every tensor then lies at a multiple of its element's size.
    order = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name in order:
        start, end = end, end + tensors[name].nbytes
        header[name] = {
            "dtype": _DTYPES[tensors[name].dtype], "shape": list(tensors[name].shape), "data_offsets": [start, end]
        }  # fmt: skip
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for name in order:
        host = device_ops.host_copy(tensors[name])
        file.write(memoryview(host.reshape(-1).view(torch.uint8).numpy()))


def read_tensors(path: Path) -> Iterator[tuple[str, torch.Tensor]]:
    """(name, host tensor) one after the other; a tensor lies in the mapped file, so copy what is to stay."""
    with safe_open(path, framework="pt", device="cpu") as file:
        for name in file.keys():  # noqa: SIM118  not a mapping
            yield name, file.get_tensor(name)
