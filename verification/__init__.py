"""A separate house: it reads only what is published (views/, releases/, release.json, MANIFEST.sha256).

    python -m verification              # all of it, from the repository root; exit 1 if anything disagrees
    python -m verification --help

Nothing here imports the package that built the release: a mistake there would otherwise be made twice and agree with
itself. Three parts: zero-row SQL checks over the Parquet files (checks/), committed row counts (expected/), and the
headline numbers computed with Polars from the views and again straight from the archives (recompute.py).
"""
