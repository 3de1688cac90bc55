"""Fixtures of the evidence tests."""

from pathlib import Path

import pytest
from evidence_tree import build_tree


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A published tree without problems."""
    build_tree(tmp_path / "published", tmp_path)
    return tmp_path / "published"
