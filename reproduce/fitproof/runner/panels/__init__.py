"""Named panels: each is one function that returns its slots; the docstring names the hardware it is meant for.

`fitproof plan NAME` calls them. What a panel measures is frozen with its plan, so a change here is another panel.
"""

from .cpu import cpu_tiny
from .grid import grid
from .quick import coverage, quick
from .scout import scout

PANELS = {"quick": quick, "coverage": coverage, "scout": scout, "grid": grid, "cpu_tiny": cpu_tiny}

__all__ = ["PANELS", "coverage", "cpu_tiny", "grid", "quick", "scout"]
