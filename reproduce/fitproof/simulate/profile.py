"""A GPU profile: what a dry run must know of a card and its libraries, as dated data."""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from ..errors import UsageError
from .placement import Placement


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuProfile:
    """One card with one torch build. Bytes where not said otherwise; `sources` says per field: measured or guessed."""

    name: str
    device_name: str
    date: str
    torch: str
    compute_capability: int
    """Major times ten plus minor: 90."""
    multiprocessors: int
    device_total_bytes: int
    prefers_cudnn_attention: bool
    """PyTorch asks cuDNN first for attention (sm90 and sm100, cuDNN 9.15.1 or newer)."""
    cublas_workspace_bytes: int
    """Per cuBLAS handle and stream; never freed."""
    cublaslt_workspace_bytes: int
    """The same for cuBLASLt, which multiplies with a bias."""
    driver_bytes: dict[str, int]
    """Device memory outside the allocator, never given back, by what makes the driver or a library take it: 'start'
    (context and first kernels), 'matmul' (cuBLAS handle of the program's thread), 'attention', 'capture' (before the
    first graph), 'graph_operation' (per operation of a captured graph), 'backward' (handle and kernels of autograd's
    thread), 'bitsandbytes' (kernels of nf4 and 8-bit optimizers)."""
    driver_spread_bytes: int
    """Half the width of what was seen of their sum for like trials."""
    placement: Placement
    sources: dict[str, str]


@cache
def load_profile(name: str = "h200") -> GpuProfile:
    """A profile by its name. Raises UsageError for an unknown one."""
    folder = files(__package__).joinpath("profiles")
    path = folder.joinpath(f"{name}.json")
    if not path.is_file():
        known = sorted(p.name.removesuffix(".json") for p in folder.iterdir() if p.name.endswith(".json"))
        raise UsageError(f"GPU profile {name!r}", found="unknown", expected="one of: " + ", ".join(known))
    data = json.loads(path.read_text(encoding="utf-8"))
    return GpuProfile(**{**data, "placement": Placement.from_json(data["placement"])})
