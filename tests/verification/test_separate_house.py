"""verification/ stands alone: no import of the package, and every check says what it proves."""

import ast
import subprocess
import sys
from pathlib import Path

import verification
from verification.run_checks import check_files, header

HOUSE = Path(verification.__file__).parent
BLOCK = """
import importlib.abc, sys
class Block(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] == "fitproof":
            raise ImportError("fitproof is not for this house")
sys.meta_path.insert(0, Block())
from verification.__main__ import main
sys.exit(main(["--root", sys.argv[1]]))
"""


def test_no_module_imports_the_package():
    modules = sorted(HOUSE.glob("*.py"))
    assert len(modules) >= 12
    for path in modules:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            assert not any(name.split(".")[0] == "fitproof" for name in names), path.name


def test_it_runs_where_the_package_is_not_installed(tmp_path):
    command = [sys.executable, "-c", BLOCK, str(tmp_path)]
    done = subprocess.run(command, cwd=HOUSE.parent, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "release.json" in done.stderr
    assert "next:" in done.stderr


def test_every_check_says_what_it_proves():
    files = check_files()
    assert len(files) >= 35
    for path in files:
        assert header(path).startswith("Proves: "), path.name
