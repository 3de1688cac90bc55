"""The dataset card (README.md) and the data dictionary (views/README.md), generated from the schema and the views.

    python -m fitproof.hub.card --check     # exit 1 and name what is stale, Croissant too; `fitproof build` writes all

Every number comes from the views; the text between the tables lives in prose.py.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..errors import CheckFailed, FitproofError
from ..root import release_root
from ..schema.view import View
from . import coverage
from .croissant import check_croissant, write_croissant
from .dictionary import cell, dictionary
from .frontmatter import front_matter
from .prose import ACCURACY, LOAD, MEASURE, NOT_CLAIMED, QUESTION, READING, REPRODUCE, RIGHTS

CARD, DICTIONARY = "README.md", "views/README.md"


def render(root: Path, views: Sequence[View]) -> dict[str, str]:
    """Path -> text of the generated Markdown files, from `views` and root/views. Same input, same text."""
    connection, rows = coverage.read_views(root, [view.name for view in views])
    with connection:
        declared = [view for view in views if view.name in rows]
        parts = [QUESTION, *_answers(connection, rows), LOAD, *_coverage(connection, rows)]
        parts += [*_accuracy(connection, rows), _views(declared, rows)]
    parts += [REPRODUCE, MEASURE, READING, NOT_CLAIMED, RIGHTS]
    sizes = {view.name: coverage.arrow_bytes(root, view.name) for view in declared}
    card = front_matter(declared, rows, sizes) + "\n" + "\n\n".join(parts) + "\n"
    return {CARD: card, DICTIONARY: dictionary(views, rows)}


def _answers(connection, rows: Mapping[str, int]) -> list[str]:
    if not {"configurations", "trials", "attempts"} <= rows.keys():
        return ["**No measurement is published yet.**"]
    fits = coverage.fits_table(connection)
    intro = (
        "## What fits\n\nPer model, workload and capacity: the largest actor micro-batch whose configuration kept the "
        "2,048 MiB margin with every seed, and the smallest that did not. Other settings vary within a line; "
        "`configurations` has them all."
    )
    return [coverage.headline(connection), *([f"{intro}\n\n{fits}"] if fits else [])]


def _coverage(connection, rows: Mapping[str, int]) -> list[str]:
    parts = []
    if {"panel_slots", "attempts"} <= rows.keys():
        parts += ["What was planned, and what became of it:", coverage.panels_table(connection)]
    if "configurations" in rows:
        parts += ["Labels, each configuration once, under the first panel that planned it:"]
        parts += [coverage.labels_table(connection)]
    if "attempts" in rows:
        reasons = coverage.not_eligible_table(connection)
        parts += (
            ["Attempts that are no trials, and why:", reasons] if reasons else ["Every attempt is an eligible trial."]
        )
    return ["## Coverage", *parts] if parts else []


def _accuracy(connection, rows: Mapping[str, int]) -> list[str]:
    if "prediction_errors" not in rows:
        return []
    return ["## How good are the predictions", ACCURACY, coverage.accuracy_table(connection)]


def _views(declared: Sequence[View], rows: Mapping[str, int]) -> str:
    lines = [(f"`{v.name}`", rows[v.name], f"`{v.split}`", cell(v.grain)) for v in declared]
    body = coverage.table(["view", "rows", "split", "one row is"], lines) if lines else "None yet."
    intro = "Every view is one config of this card. They count different things: never add up their rows."
    return f"## Views\n\n{intro}\n\n{body}"


def write_card(root: Path, views: Sequence[View] | None = None) -> list[str]:
    """Write README.md and views/README.md under `root`; returns their paths. `views` defaults to the schema's."""
    texts = render(root, schema_views() if views is None else views)
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8"))
    return sorted(texts)


def check_card(root: Path, views: Sequence[View] | None = None) -> list[str]:
    """Generated files under `root` that are absent or differ from what `write_card` would write; empty: all current."""
    texts = render(root, schema_views() if views is None else views)
    return sorted(
        n for n, text in texts.items() if not (root / n).is_file() or (root / n).read_bytes() != text.encode()
    )


def schema_views() -> Sequence[View]:
    from ..schema.views import VIEWS

    return tuple(VIEWS.values())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m fitproof.hub.card", description="Write the card, or check it.")
    parser.add_argument("--root", help="release folder; default: the nearest ancestor with release.json, else here")
    parser.add_argument("--check", action="store_true", help="exit 1 when the card is stale")
    options = parser.parse_args()
    try:
        root = release_root(options.root)
        if options.check:
            stale = check_card(root) + check_croissant(root, schema_views())
            if stale:
                raise CheckFailed(", ".join(stale), found="stale", expected="the generated text", hint="fitproof build")
        else:
            write_card(root)
            write_croissant(root, schema_views())
    except FitproofError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
