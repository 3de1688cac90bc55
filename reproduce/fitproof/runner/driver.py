"""The few calls of the CUDA driver that the supervisor side needs, through ctypes: no torch, no CUDA toolkit.

Only plain allocations (cuMemAlloc). Managed memory is never asked for: more of it than the card has can hang a GPU.
"""

import ctypes
import uuid
from ctypes import POINTER, byref, c_char, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p

from ..errors import EnvironmentLacks

OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY

# The `_v2` names are the 64-bit forms that cuda.h maps the plain names to; the plain symbols are 32-bit relics.
_SIGNATURES = {
    "cuInit": [c_uint],
    "cuDriverGetVersion": [POINTER(c_int)],
    "cuDeviceGet": [POINTER(c_int), c_int],
    "cuDeviceGetName": [POINTER(c_char), c_int, c_int],
    "cuDeviceGetUuid_v2": [POINTER(c_char * 16), c_int],
    "cuDevicePrimaryCtxRetain": [POINTER(c_void_p), c_int],
    "cuCtxSetCurrent": [c_void_p],
    "cuMemGetInfo_v2": [POINTER(c_size_t), POINTER(c_size_t)],
    "cuMemAlloc_v2": [POINTER(c_uint64), c_size_t],
    "cuMemFree_v2": [c_uint64],
    "cuGetErrorName": [c_int, POINTER(c_char_p)],
    "cuGetErrorString": [c_int, POINTER(c_char_p)],
}


class DriverError(Exception):
    """A driver call that failed; `code` is its CUresult."""

    def __init__(self, call: str, code: int, text: str):
        self.code = code
        super().__init__(f"{call}: {text}")


def load_library() -> ctypes.CDLL:
    """libcuda of the installed driver. Raises EnvironmentLacks."""
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise EnvironmentLacks(
            "CUDA driver",
            found=str(error),
            expected="libcuda.so.1 from an installed NVIDIA driver",
            hint="nvidia-smi  # or measure on the CPU: fitproof run cpu_tiny",
        ) from None


class Driver:
    """The first visible CUDA device (CUDA_VISIBLE_DEVICES decides which that is)."""

    def __init__(self, library: object | None = None):
        self._library = load_library() if library is None else library
        for name, arguments in _SIGNATURES.items():
            function = getattr(self._library, name)
            function.argtypes, function.restype = arguments, c_int
        self._call("cuInit", 0)
        device = c_int()
        self._call("cuDeviceGet", byref(device), 0)
        self._device = device.value

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            raise DriverError(name, code, self._error_text(code))

    def _error_text(self, code: int) -> str:
        texts = []
        for function in ("cuGetErrorName", "cuGetErrorString"):
            text = c_char_p()
            if getattr(self._library, function)(code, byref(text)) == 0 and text.value:
                texts.append(text.value.decode())
        return ": ".join(texts) or f"error {code}"

    def version(self) -> str:
        """Newest CUDA version the driver serves, '13.0'."""
        version = c_int()
        self._call("cuDriverGetVersion", byref(version))
        return f"{version.value // 1000}.{version.value % 1000 // 10}"

    def name(self) -> str:
        text = ctypes.create_string_buffer(256)
        self._call("cuDeviceGetName", text, len(text), self._device)
        return text.value.decode()

    def uuid(self) -> str:
        """Lower-case, with hyphens, without a prefix. Used to find the same device in NVML, never written down."""
        raw = (c_char * 16)()
        self._call("cuDeviceGetUuid_v2", byref(raw), self._device)
        return str(uuid.UUID(bytes=raw.raw))

    def make_context(self) -> None:
        """Create the device's primary context and make it current; it lives until the process ends."""
        context = c_void_p()
        self._call("cuDevicePrimaryCtxRetain", byref(context), self._device)
        self._call("cuCtxSetCurrent", context)

    def memory(self) -> tuple[int, int]:
        """(free, total) bytes of the device; needs a context."""
        free, total = c_size_t(), c_size_t()
        self._call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value, total.value

    def allocate(self, size: int) -> int | None:
        """Address of `size` bytes, or None when the device has no room for them."""
        address = c_uint64()
        try:
            self._call("cuMemAlloc_v2", byref(address), size)
        except DriverError as error:
            if error.code == OUT_OF_MEMORY:
                return None
            raise
        return address.value

    def release(self, address: int) -> None:
        self._call("cuMemFree_v2", address)
