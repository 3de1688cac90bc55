"""fitproof: will this LLM post-training configuration fit in the GPU memory I have, and how do you know?

`import fitproof` is light: neither torch nor duckdb is imported until something needs them.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb

__version__ = "0.1.0"


def load(view: str, root: "str | Path | None" = None) -> "duckdb.DuckDBPyRelation":
    """One published view as a DuckDB relation: `fitproof.load("trials").df()`. See `fitproof.hub.load`."""
    from .hub.load import load as load_view

    return load_view(view, root)
