"""What a failure event says about an exception and about the allocator at that moment."""

import re
from collections.abc import Callable

import torch

_UNITS = {"bytes": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
# "Tried to allocate 2.50 GiB." by the CUDA allocator; "you tried to allocate 1024 bytes." by the CPU allocator.
_REQUEST = re.compile(r"[Tt]ried to allocate\s+([0-9.]+)\s*(bytes|B|KiB|MiB|GiB|TiB)\b")


def causes(error: BaseException) -> list[BaseException]:
    """The exception and what caused it, outermost first. An explicit cause wins over the implicit context."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        suppressed = current.__suppress_context__
        current = current.__cause__ or (None if suppressed else current.__context__)
    return chain


def type_name(error: BaseException) -> str:
    """Qualified name, 'torch.OutOfMemoryError'; builtins bare, 'ValueError'."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def requested_bytes(text: str) -> int | None:
    """Bytes of the allocation that failed, as precise as the message gives them."""
    found = _REQUEST.search(text)
    return round(float(found[1].rstrip(".")) * _UNITS[found[2]]) if found else None


def reclaimable_bytes(device: torch.device) -> int:
    """Cached bytes in wholly free segments of the ordinary pool, which a retry could have returned to the driver."""
    wanted = device.index if device.index is not None else torch.cuda.current_device()
    return sum(
        segment["total_size"]
        for segment in torch.cuda.memory_snapshot()
        if segment["device"] == wanted
        and segment["active_size"] == 0
        and tuple(segment.get("segment_pool_id", (0, 0))) == (0, 0)
    )


def describe_failure(error: BaseException, device: torch.device | None) -> dict[str, object]:
    """The fields of a failure event, except stage and step. Whatever cannot be asked any more is None.

    After an out-of-memory of the context itself every query may raise; none of them may hide `error`.
    """
    chain = causes(error)
    on_gpu = device is not None and device.type == "cuda"

    def ask(query: Callable[[], int]) -> int | None:
        if not on_gpu:
            return None
        try:
            return int(query())
        except Exception:
            return None

    def stat(key: str) -> int | None:
        return ask(lambda: torch.cuda.memory_stats(device)[key])

    message = str(chain[-1])
    request = next((r for r in (requested_bytes(str(e)) for e in reversed(chain)) if r is not None), None)
    return {
        "exception_types": [type_name(e) for e in chain],
        "message": message,
        "allocated_bytes": stat("allocated_bytes.all.current"),
        "reserved_bytes": stat("reserved_bytes.all.current"),
        "peak_allocated_bytes": stat("allocated_bytes.all.peak"),
        "peak_reserved_bytes": stat("reserved_bytes.all.peak"),
        "alloc_retries": stat("num_alloc_retries"),
        "oom_count": stat("num_ooms"),
        "requested_alloc_bytes": request,
        "device_free_bytes": ask(lambda: torch.cuda.mem_get_info(device)[0]),
        "reclaimable_bytes": ask(lambda: reclaimable_bytes(device)),
    }
