"""One measurement in a process of its own: `python -m benchmarks.child WHAT FOLDER` prints one JSON object.

WHAT is bound-joined, bound-members, pipeline or pandas; FOLDER holds the archives with their sidecars. Seconds start
after the imports; peak_rss_bytes is the kernel's high-water mark of the whole process, imports included.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path


def peak_rss_bytes() -> int:
    """VmHWM of this process."""
    line = next(x for x in Path("/proc/self/status").read_text(encoding="ascii").splitlines() if x.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def run_bound(archives: list[Path], layout: str) -> dict:
    from benchmarks.bound import measure_bound

    bound = measure_bound(archives, layout)
    return {
        "seconds": bound.seconds,
        "cpu_seconds": bound.cpu_seconds,
        "peak_rss_bytes": peak_rss_bytes(),
        "rows": bound.rows,
        "members": bound.members,
        "parts": {name: clock.wall for name, clock in bound.parts.items()},
    }


def run_pandas(archives: list[Path]) -> dict:
    from benchmarks.pandas_reduction import reduce_to

    with tempfile.TemporaryDirectory() as folder:
        return _timed(lambda: {"views": reduce_to(archives, Path(folder))})


def run_pipeline(archives: list[Path]) -> dict:
    import pandas  # noqa: F401  # pyarrow imports it at first use, where it is installed: an import like the others

    from benchmarks.pipeline import reduce_to

    with tempfile.TemporaryDirectory() as folder:
        return _timed(lambda: {"views": reduce_to(archives, Path(folder))})


def _timed(work) -> dict:
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return {
        "seconds": time.perf_counter() - wall,
        "cpu_seconds": time.process_time() - cpu,
        "peak_rss_bytes": peak_rss_bytes(),
        **result,
    }


def main(what: str, folder: str) -> None:
    archives = sorted(Path(folder).glob("*.tar.zst"))
    if not archives:
        sys.exit(f"{folder}: no archive")
    if what.startswith("bound-"):
        result = run_bound(archives, what.removeprefix("bound-"))
    else:
        result = {"pandas": run_pandas, "pipeline": run_pipeline}[what](archives)
    print(json.dumps({"what": what, "archives": len(archives), "cores": os.cpu_count(), **result}))


if __name__ == "__main__":
    main(*sys.argv[1:])
