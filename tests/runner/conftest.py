"""Fake trials, run by the real supervisor on the CPU."""

from pathlib import Path

import pytest
from fake_panels import TARGET, fake_panel
from fitproof.runner import plan as plan_module
from fitproof.runner import supervisor
from fitproof.runner.plan import freeze


@pytest.fixture
def run_fake(monkeypatch, tmp_path):
    """run_fake(*seeds, **options) -> RunSummary, always into the same run directory."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.setattr(plan_module, "code_digest", lambda: "0" * 64)

    def run(*seeds: int, out: Path = tmp_path, estimate_seconds: int = 1, **options):
        plan = freeze(fake_panel(*seeds, estimate_seconds=estimate_seconds))
        return supervisor.run_panel(plan, out, target=TARGET, preload=(), **options)

    return run
