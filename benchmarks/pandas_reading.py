"""Archives to pandas frames, as an analyst would read them: one tarfile loop, json.loads, pd.read_csv per trace.

No digest is checked and no record is validated, which the pipeline does and this does not pay for.
"""

import io
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import zstandard


@dataclass(kw_only=True, slots=True)
class Raw:
    """Everything in the archives. `key` is panel/slot_id/attempt in every frame."""

    plans: pd.DataFrame
    """One row a planned slot: panel, slot_number, slot_id, seed, settings, estimate_seconds, digests."""
    ledger: pd.DataFrame
    trials: pd.DataFrame
    """trial.json, settings kept as a dict."""
    environments: pd.DataFrame
    results: pd.DataFrame
    events: pd.DataFrame
    samples: pd.DataFrame


def read_archives(paths: list[Path]) -> Raw:
    plans, ledger, trials, environments, results, events, samples = ([] for _ in range(7))
    for path in paths:
        archive = path.name.removesuffix(".tar.zst")
        with (
            path.open("rb") as f,
            zstandard.ZstdDecompressor().stream_reader(f) as reader,
            tarfile.open(fileobj=reader, mode="r|") as tar,
        ):
            for member in tar:
                folder, _, name = member.name.rpartition("/")
                if name not in FILES:
                    continue
                data = tar.extractfile(member).read()
                if name == "plan.json":
                    plan = json.loads(data)
                    common = {k: plan[k] for k in ("panel", "digest", "predictions_digest")}
                    plans += [{**common, "slot_number": n, **slot} for n, slot in enumerate(plan["slots"], 1)]
                    continue
                if name == "ledger.jsonl":
                    ledger += [{"panel": folder, **json.loads(line)} for line in data.splitlines()]
                    continue
                panel, slot_id, attempt = folder.split("/")
                key = f"{panel}/{slot_id}/{attempt.removeprefix('attempt-')}"
                if name == "memory.csv":
                    samples.append(pd.read_csv(io.BytesIO(data), dtype=SAMPLE_TYPES).assign(key=key))
                elif name == "events.jsonl":
                    events += [{"key": key, **json.loads(line)} for line in data.splitlines()]
                elif name == "trial.json":
                    trials.append({"key": key, "archive": archive, **json.loads(data)})
                elif name == "environment.json":
                    environments.append({"key": key, **json.loads(data)})
                elif name == "result.json":
                    results.append({"key": key, **json.loads(data)})
    return Raw(
        plans=pd.DataFrame(plans),
        ledger=pd.DataFrame(ledger),
        trials=pd.DataFrame(trials),
        environments=pd.DataFrame(environments),
        results=pd.DataFrame(results),
        events=pd.DataFrame(events),
        samples=pd.concat(samples, ignore_index=True),
    )


FILES = ("plan.json", "ledger.jsonl", "memory.csv", "events.jsonl", "trial.json", "environment.json", "result.json")
SAMPLE_TYPES = {"t_ns": "int64", "device_index": "int64", "device_used_bytes": "int64", "process_used_bytes": "Int64"}
