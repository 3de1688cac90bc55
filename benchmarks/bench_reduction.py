"""What the reduction costs: seconds, peak memory, and ratios to a bound and to a peer measured in the same run.

    python benchmarks/bench_reduction.py                 # x1, x10, x100
    python benchmarks/bench_reduction.py --scales 1 10 --repeats 1 --json

x1 is one synthetic archive of 90 attempts of 600 samples (benchmarks/synthetic.py, packed at level 3); x10 and x100 are
ten and a hundred such archives, or with --one-archive a single archive of as many attempts. Rivals, each in a fresh
process of its own and in turns with the pipeline: the bound of benchmarks/bound.py, and benchmarks/pandas_reduction.py,
which gives the same views. The stated bound is `bound-joined`: DuckDB gets one joined file a kind and archive, laid out
beforehand and not timed, which is the least that any serial reading can cost. `bound-members`, where DuckDB gets every
member as a file of its own, is printed beside it. The bound is serial by definition; the pipeline may use both cores.
Figures are those of the run with the median time; imports are not timed. On a busy machine trust the CPU seconds: wall
time is then the neighbours' as well, hence the load that is printed. Nothing is asserted.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # so that it also runs as a script

from fitproof.evidence.pack import pack  # noqa: E402

from benchmarks import synthetic  # noqa: E402

MIB = 1 << 20
STATED_BOUND = "bound-joined"
BOUNDS = (STATED_BOUND, "bound-members")


def make_archives(folder: Path, panels: range, *, attempts: int, samples: int, one_archive: bool) -> None:
    """Pack synthetic panels into `folder`, one archive a panel or one for all."""
    groups = [panels] if one_archive else [range(k, k + 1) for k in panels]
    for group in groups:
        with tempfile.TemporaryDirectory(dir=folder) as runs:
            for k in group:
                synthetic.write_panel(Path(runs), k, attempts=attempts, samples=samples)
            pack([Path(runs)], folder / f"2026-01-01_synthetic_{group.start:03d}-{group.stop:03d}.tar.zst", level=3)


def measure(whats: list[str], folder: Path, repeats: int) -> dict[str, dict]:
    """Run benchmarks/child.py for each of `whats`, `repeats` rounds; of each the run with the median time."""
    runs: dict[str, list[dict]] = {what: [] for what in whats}
    for _ in range(repeats):
        for what in whats:
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.child", what, str(folder)],
                cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True,
            )  # fmt: skip
            runs[what].append(json.loads(done.stdout.splitlines()[-1]))
    return {what: sorted(of, key=lambda run: run["seconds"])[(len(of) - 1) // 2] for what, of in runs.items()}


def measure_scale(folder: Path, scale: int, args: argparse.Namespace) -> dict:
    """All figures of one scale: the pipeline's own, and each rival's with its ratio."""
    repeats = args.repeats if scale <= 10 else 1
    rivals = [*BOUNDS] + (["pandas"] if scale <= args.pandas_up_to else [])
    measured = measure(["pipeline", *rivals], folder, repeats)
    pipeline = measured["pipeline"]
    row = {"scale": scale, "archive_bytes": sum(p.stat().st_size for p in folder.glob("*.tar.zst")), "rivals": {},
           "stated_bound": STATED_BOUND, "load_average": os.getloadavg()[0], "cores": os.cpu_count()}  # fmt: skip
    row |= {k: pipeline[k] for k in ("seconds", "cpu_seconds", "peak_rss_bytes")}
    for name in rivals:
        rival = measured[name]
        row["raw_rows"] = rival.get("rows", row.get("raw_rows"))
        row["rivals"][name] = {
            **{k: rival[k] for k in ("seconds", "cpu_seconds", "peak_rss_bytes", "parts") if k in rival},
            "ratio": pipeline["seconds"] / rival["seconds"],
            "cpu_ratio": pipeline["cpu_seconds"] / rival["cpu_seconds"],
        }
    return row


def show(row: dict, before: dict | None) -> None:
    print(
        f"x{row['scale']}: {row['archive_bytes'] / MIB:.1f} MiB of archives, {row['raw_rows']:,} raw rows; "
        f"load {row['load_average']:.1f} on {row['cores']} cores"
    )
    print(f"  {'':14} {'seconds':>9} {'CPU s':>9} {'peak MiB':>9}   pipeline / this (wall, CPU)")
    for name, run in {"pipeline": row, **row["rivals"]}.items():
        figures = f"{run['seconds']:9.3f} {run['cpu_seconds']:9.3f} {run['peak_rss_bytes'] / MIB:9.0f}"
        ratio = f"   {run['ratio']:.2f}, {run['cpu_ratio']:.2f}" if "ratio" in run else ""
        print(f"  {name:14} {figures}{ratio}{'   <- the stated bound' if name == STATED_BOUND else ''}")
    if before:
        growth = row["seconds"] / before["seconds"] / (row["scale"] / before["scale"])
        print(f"  seconds per attempt, against x{before['scale']}: {growth:.2f} (1: linear; less: fixed cost)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scales", type=int, nargs="+", default=[1, 10, 100])
    parser.add_argument("--attempts", type=int, default=90, help="per panel")
    parser.add_argument("--samples", type=int, default=600, help="per attempt")
    parser.add_argument("--repeats", type=int, default=3, help="up to x10; above it one run each")
    parser.add_argument("--pandas-up-to", type=int, default=100, help="largest scale that the peer runs at")
    parser.add_argument("--one-archive", action="store_true", help="one archive of all panels instead of one a panel")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows: list[dict] = []
    for scale in sorted(args.scales):
        with tempfile.TemporaryDirectory() as scratch:
            print(f"making x{scale} ...", file=sys.stderr)
            make_archives(
                Path(scratch), range(scale), attempts=args.attempts, samples=args.samples, one_archive=args.one_archive
            )
            rows.append(measure_scale(Path(scratch), scale, args))
        if not args.json:
            show(rows[-1], rows[-2] if len(rows) > 1 else None)
    if args.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
