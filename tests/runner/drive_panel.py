"""A supervisor in a process of its own, for tests that kill it: `python drive_panel.py OUT SEED ...`."""

import sys
from pathlib import Path

from fake_panels import TARGET, fake_panel
from fitproof.runner import plan, supervisor

if __name__ == "__main__":
    plan.code_digest = lambda: "0" * 64  # as in conftest.py: the tree may change while the tests run
    frozen = plan.freeze(fake_panel(*map(int, sys.argv[2:])))
    summary = supervisor.run_panel(frozen, Path(sys.argv[1]), target=TARGET, preload=())
    print(summary.stopped_by)
