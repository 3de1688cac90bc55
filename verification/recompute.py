"""Headline numbers twice: from the published views, and straight from the archives. Agreement is exact.

python -m verification headline
"""

from .archives import ArchiveError
from .from_archives import read_archives
from .from_views import read_views
from .headline import Headline, headline
from .release import Release


def compare(release: Release) -> tuple[Headline, list[str]]:
    """(the numbers from the views, every disagreement in words)."""
    published = headline(read_views(release))
    try:
        recomputed = headline(read_archives(release))
    except ArchiveError as error:
        return published, [str(error)]
    lines = []
    for name in sorted(published.keys() | recomputed.keys()):
        here, there = published.get(name, "not there"), recomputed.get(name, "not there")
        if here != there:
            lines.append(f"{name}: {here} from the views, {there} from the archives")
    return published, lines
