"""Named panels: each is one function that returns its slots; the docstring names the hardware it is meant for.

`fitproof plan NAME` calls them. What a panel measures is frozen with its plan, so a change here is another panel.
"""

from .cpu import cpu_tiny
from .critic import ppo
from .grid import grid
from .quick import coverage, quick
from .remedies import adaptation, offload, release
from .scout import scout

PANELS = {"quick": quick, "coverage": coverage, "scout": scout, "grid": grid, "offload": offload,
          "release": release, "adaptation": adaptation, "ppo": ppo, "cpu_tiny": cpu_tiny}  # fmt: skip

__all__ = ["PANELS", "adaptation", "coverage", "cpu_tiny", "grid", "offload", "ppo", "quick", "release", "scout"]
