"""How fast the runner is, against peers measured in the same run on the same random weights and prompts.

    python benchmarks/runner_bench.py                                        # every section, on one NVIDIA GPU
    python benchmarks/runner_bench.py --sections opd --opd-set capture_micro_batches=true --out opd.json
    python benchmarks/runner_bench.py --tiny --no-peers                      # the same code, on a CPU

| section | ours | peer |
|---|---|---|
| opd | `fitproof workload opd`, through and resumed, at each --update-batch | miniVERL 0.16.0, `hf_cached` rollout |
| grpo | one GRPO trial of 6 steps | TRL 1.16.0 GRPOTrainer; --trl-paged: its continuous batching |
| decode | the cuda_graph engine, second call with set-up | transformers generate; --compiled: its static cache |
| quick | panel quick, or the run directory of --quick-dir | none: its literature publishes 5 to 10 trials an hour |

A section has --limit-seconds; what exceeds them is skipped and said so, and so is a peer that is not installed,
with the command. --out holds the raw output of every process, --records DIR keeps raw records for `fitproof pack`: ours
below DIR/opd-batch-N and DIR/quick, peers' below DIR/peers. Ratios above 1 are in our favour. Nothing is asserted.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # so that it also runs as a script

from benchmarks.runner import decode, grpo, opd, quick  # noqa: E402
from benchmarks.runner.processes import Clock, Skipped  # noqa: E402
from benchmarks.runner.table import text  # noqa: E402

SECTIONS = {"opd": opd.measure, "grpo": grpo.measure, "decode": decode.measure, "quick": quick.measure}


def main() -> None:
    args = parse()
    with tempfile.TemporaryDirectory(prefix="runner-bench-") as temporary:
        scratch = args.scratch or Path(temporary)
        result = {"machine": machine(args.tiny), "arguments": sys.argv[1:], "sections": {}}
        rows = []
        for name in args.sections:
            begun = time.perf_counter()
            folder = scratch / name
            folder.mkdir(parents=True)
            try:
                own, raw = SECTIONS[name](args, folder, Clock(args.limit_seconds))
            except Skipped as reason:
                own, raw = [], {"skipped": str(reason)}
            rows += own
            raw |= {"rows": [row.record() for row in own], "section_seconds": time.perf_counter() - begun}
            result["sections"][name] = raw
            for what in [key for key in raw if key.endswith("skipped")]:
                print(f"{name}: {what}: {raw[what]}", file=sys.stderr)
            if args.out:  # after each section: a run that is cut short keeps what it has
                args.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(text(rows))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sections", type=lambda text: text.split(","), default=list(SECTIONS), metavar="A,B",
                        help="of " + ", ".join(SECTIONS))  # fmt: skip
    parser.add_argument("--limit-seconds", type=float, default=540.0, help="of each section")
    parser.add_argument("--out", type=Path, help="raw output as JSON")
    parser.add_argument("--records", type=Path, metavar="DIR", help="keep raw records here")
    parser.add_argument("--scratch", type=Path, metavar="DIR", help="keep logs and snapshots here")
    parser.add_argument("--campaign", default="bench", help="campaign of the raw records")
    parser.add_argument("--tiny", action="store_true", help="tiny models on the CPU: does the code work")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--pair", default="qwen3", help="opd: qwen3 or smollm2")
    parser.add_argument("--update-batch", type=int, nargs="+", default=[1, 4], help="opd: our update micro-batches")
    parser.add_argument("--opd-set", action="append", default=[], metavar="KEY=VALUE", help="opd: a setting of ours")
    parser.add_argument(
        "--peer-set", action="append", default=[], metavar="KEY=VALUE", help="opd: a setting of the peer's"
    )
    parser.add_argument("--grpo-set", action="append", default=[], metavar="KEY=VALUE", help="grpo: a setting of ours")
    parser.add_argument("--trl-paged", action="store_true")
    parser.add_argument("--compiled", action="store_true", help="decode: compiling takes a minute")
    parser.add_argument("--quick-dir", type=Path, metavar="DIR", help="quick: read this run directory, run nothing")
    args = parser.parse_args()
    unknown = [name for name in args.sections if name not in SECTIONS]
    if unknown:
        parser.error(f"unknown sections {', '.join(unknown)}: choose from {', '.join(SECTIONS)}")
    return args


def machine(tiny: bool) -> dict:
    """No host name: the raw output is published."""
    packages = ("torch", "transformers", "peft", "bitsandbytes", "accelerate", "trl", "miniverl")
    found = {}
    for name in packages:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    device = "cpu"
    if not tiny:
        from fitproof.runner.device import open_device

        opened = open_device("cuda")
        device = opened.name
        opened.close()
    return {"device": device, "python": platform.python_version(), "cores": os.cpu_count(), "packages": found}


if __name__ == "__main__":
    main()
