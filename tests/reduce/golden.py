"""Rows of every view of a golden case; run as a script it writes the expected ones.

.venv/bin/python tests/reduce/golden.py complete cpu     # or without names: all cases
"""

import json
import sys
import tempfile
from pathlib import Path

import pyarrow.parquet as pq
from fitproof.evidence.pack import pack
from fitproof.reduce.ingest import ArchiveFile
from fitproof.reduce.reduction import reduce_archives

CASES = Path(__file__).parent / "cases"


def pack_case(case: str, out: Path) -> list[ArchiveFile]:
    """One archive for each folder of cases/<case>/archives."""
    archives = []
    for folder in sorted((CASES / case / "archives").iterdir()):
        packed = pack([folder], out / f"{folder.name}.tar.zst", level=1)
        archives.append(ArchiveFile(path=packed.path, sha256=packed.sha256))
    return archives


def rows_of(case: str, scratch: Path) -> dict[str, list[dict]]:
    """View -> its rows, timestamps as text; views without rows are absent."""
    views = reduce_archives(pack_case(case, scratch), scratch)
    rows = {
        view.name: [row for path in view.files for row in pq.read_table(scratch / path).to_pylist()]
        for view in views
        if view.rows
    }
    return json.loads(json.dumps(rows, default=lambda moment: moment.isoformat(timespec="microseconds")))


def expected_files(case: str) -> dict[str, Path]:
    return {path.stem: path for path in sorted((CASES / case / "expected").glob("*.json"))}


def main(names: list[str]) -> None:
    for case in names or sorted(path.name for path in CASES.iterdir()):
        folder = CASES / case / "expected"
        folder.mkdir(exist_ok=True)
        for path in folder.iterdir():
            path.unlink()
        with tempfile.TemporaryDirectory() as scratch:
            for view, rows in rows_of(case, Path(scratch)).items():
                lines = ",\n".join(json.dumps(row) for row in rows)
                (folder / f"{view}.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
