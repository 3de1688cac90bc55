"""Frozen predictions straight from the archives: which count, as what, and how far they were off."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable

PPB = 1_000_000_000
"""Errors are compared as integers: parts per billion, rounded."""
ERRORS = {
    "allocated": "peak_allocated_bytes",
    "reserved": "peak_reserved_bytes",
    "device_used": "peak_device_used_bytes",
}


def parse_file(data: bytes) -> list[dict]:
    """The lines of one predictions.jsonl, each with the digest of its file."""
    digest = hashlib.sha256(data).hexdigest()
    return [{**json.loads(line), "digest": digest} for line in data.splitlines()]


def rows(lines: Iterable[dict], measured: dict[str, dict]) -> list[dict]:
    """One row per configuration, method and version. `measured`: configuration_id -> label, failed, digests (of the
    predictions that the plans of its trials name, None for none) and peaks, for configurations with an eligible trial.
    """
    versions: dict[tuple, list[dict]] = defaultdict(list)
    for line in lines:
        named = measured.get(line["configuration_id"], {}).get("digests", set())
        line["is_prospective"] = named == {line["digest"]}
        versions[line["configuration_id"], line["method"], line["method_version"]].append(line)
    kept = [
        min(same, key=lambda p: (not p["is_prospective"], p["frozen_at"], p["digest"])) for same in versions.values()
    ]
    last: dict[tuple, tuple] = {}
    for p in kept:
        key = p["configuration_id"], p["method"]
        last[key] = max(last.get(key, ("", "")), (p["frozen_at"], p["method_version"]))
    return [_row(p, (p["frozen_at"], p["method_version"]) == last[p["configuration_id"], p["method"]],
                 measured.get(p["configuration_id"])) for p in kept]  # fmt: skip


def _row(p: dict, is_latest: bool, seen: dict | None) -> dict:
    row = {
        **{name: p[name] for name in ("configuration_id", "method", "method_version", "is_prospective")},
        "is_latest": is_latest, "is_measured": seen is not None, "predicted_label": p["label"], "is_label_right": None,
    }  # fmt: skip
    if seen is not None and p["label"] is not None and seen["label"] not in (None, "unresolved"):
        row["is_label_right"] = p["label"] == seen["label"]
    for name, peak in ERRORS.items():
        is_known = seen is not None and not seen["failed"] and p[peak] is not None and seen[peak] is not None
        row[f"{name}_ppb"] = round((p[peak] / seen[peak] - 1) * PPB) if is_known else None
    return row
