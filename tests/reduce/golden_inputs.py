"""The golden cases, and the command that writes their inputs anew: .venv/bin/python tests/reduce/golden_inputs.py"""

import shutil
from collections.abc import Callable
from pathlib import Path

import raw_cases as raw
from raw_cases import CASES
from raw_predictions import predicted
from raw_workloads import opd_workloads

INPUTS: dict[str, Callable[[Path], None]] = {
    made.__name__: made
    for made in (raw.complete, raw.above_margin, raw.memory_failure, raw.interrupted, raw.replacement, raw.cpu,
                 raw.no_process_used, raw.two_campaigns, raw.small_capacity, raw.four_seeds, raw.released_pool,
                 predicted, opd_workloads)
}  # fmt: skip


def main() -> None:
    for name, make in INPUTS.items():
        folder = CASES / name
        shutil.rmtree(folder / "archives", ignore_errors=True)
        make(folder / "archives")
        text = " ".join((make.__doc__ or "").split())
        origin = f"# {name}\n\n{text}\n\nInputs: `{name}` in tests/reduce/{make.__module__}.py. "
        origin += "Expected rows: written by tests/reduce/golden.py and checked by hand against that text.\n"
        (folder / "ORIGIN.md").write_text(origin, encoding="utf-8")


if __name__ == "__main__":
    main()
