"""A CUDA device that exists only behind the driver's C interface."""

import ctypes
import uuid
from types import SimpleNamespace

from fitproof.runner import driver as driver_module
from fitproof.runner.ballast import GRANULARITY
from fitproof.runner.driver import OUT_OF_MEMORY

MIB = 1024**2
CONTEXT = 500 * MIB
UUID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")


def store(out, value) -> int:
    """Write through an output pointer; 0 is CUDA_SUCCESS."""
    out[0] = value
    return 0


class FakeCard:
    """A device behind the C interface. Allocations take whole pages of 2 MiB, and every `page_table_every` of them one
    page more; `largest` is the biggest piece it can hand out at once."""

    def __init__(self, total=16 * 1024 * MIB, used=0, page_table_every=0, largest=None):
        self.total, self.used, self.page_table_every, self.largest = total, used, page_table_every, largest
        self.allocations: dict[int, int] = {}
        self.count = 0
        self.library = SimpleNamespace()
        self.answer(
            cuInit=lambda flags: 0,
            cuDriverGetVersion=lambda out: store(out, 13000),
            cuDeviceGet=lambda out, ordinal: store(out, ordinal),
            cuDeviceGetName=self._name,
            cuDeviceGetUuid_v2=self._uuid,
            cuDevicePrimaryCtxRetain=self._retain,
            cuCtxSetCurrent=lambda context: 0,
            cuMemGetInfo_v2=lambda free, total: store(free, self.free) or store(total, self.total),
            cuMemAlloc_v2=self._allocate,
            cuMemFree_v2=self._free,
            cuGetErrorName=lambda code, out: store(out, b"CUDA_ERROR_OUT_OF_MEMORY"),
            cuGetErrorString=lambda code, out: store(out, b"out of memory"),
        )

    def answer(self, **functions) -> None:
        """Real C function pointers, so that arguments cross the boundary by the declared signatures."""
        for name, function in functions.items():
            kind = ctypes.CFUNCTYPE(ctypes.c_int, *driver_module._SIGNATURES[name])
            setattr(self.library, name, kind(function))

    @property
    def free(self) -> int:
        return self.total - self.used

    def _name(self, buffer, size, device) -> int:
        for index, byte in enumerate(b"Fake H200\0"):
            buffer[index] = byte
        return 0

    def _uuid(self, out, device) -> int:
        out[0][:] = UUID.bytes
        return 0

    def _retain(self, out, device) -> int:
        self.used += CONTEXT
        return store(out, 0xC0)

    def _allocate(self, out, size) -> int:
        pages = -(-size // GRANULARITY)
        self.count += 1
        if self.page_table_every and self.count % self.page_table_every == 0:
            pages += 1
        if pages * GRANULARITY > self.free or (self.largest and size > self.largest):
            return OUT_OF_MEMORY
        address = 0x7F0000000000 + self.count
        self.allocations[address] = pages * GRANULARITY
        self.used += pages * GRANULARITY
        return store(out, address)

    def _free(self, address) -> int:
        self.used -= self.allocations.pop(address)
        return 0
