"""The YAML at the top of the card: one config per view that has rows, with typed features.

Written by hand, so that building needs no YAML library.
The features come from Column.type, so a column that happens to hold only nulls still loads with its type.
"""

import json
from collections.abc import Mapping, Sequence

from ..schema.view import FEATURE_DTYPES, View

DEFAULT_VIEW = "configurations"
TAGS = (
    "benchmark",
    "gpu-memory",
    "out-of-memory",
    "post-training",
    "reinforcement-learning",
    "lora",
    "reproducibility",
)
SIZE_CATEGORIES = (
    (1_000, "n<1K"),
    (10_000, "1K<n<10K"),
    (100_000, "10K<n<100K"),
    (1_000_000, "100K<n<1M"),
    (10_000_000, "1M<n<10M"),
)


def data_path(view: View) -> str:
    """Path or glob of a view's files, relative to the release root."""
    return f"views/{view.name}/*.parquet" if view.is_per_archive else f"views/{view.name}.parquet"


def front_matter(views: Sequence[View], rows: Mapping[str, int], arrow_bytes: Mapping[str, int]) -> str:
    """The block with its two '---' lines. `views` are those with at least one row; the mappings hold each view's rows
    and its bytes in Arrow memory, which `datasets` wants together."""
    lines = [
        "---",
        "pretty_name: fitproof",
        "license: mit",
        "language:",
        "- en",
        "task_categories:",
        "- other",
        "tags:",
        *(f"- {tag}" for tag in TAGS),
        "size_categories:",
        f"- {_size_category(sum(rows[v.name] for v in views))}",
    ]
    if views:
        lines.append("configs:")
        for view in views:
            lines += [
                f"- config_name: {view.name}",
                "  data_files:",
                f"  - split: {view.split}",
                f"    path: {data_path(view)}",
            ]
            if view.name == DEFAULT_VIEW:
                lines.append("  default: true")
        lines.append("dataset_info:")
        for view in views:
            lines += [f"- config_name: {view.name}", "  features:"]
            for column in view.columns:
                lines += [f"  - name: {json.dumps(column.name)}", f"    dtype: {FEATURE_DTYPES[column.type]}"]
            lines += ["  splits:", f"  - name: {view.split}"]
            lines += [f"    num_bytes: {arrow_bytes[view.name]}", f"    num_examples: {rows[view.name]}"]
    return "\n".join([*lines, "---", ""])


def _size_category(rows: int) -> str:
    return next((name for limit, name in SIZE_CATEGORIES if rows < limit), "n>10M")
