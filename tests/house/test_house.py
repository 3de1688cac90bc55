"""The house around the package: make targets, pinned versions, rights, and texts that keep their promises."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from fitproof.evidence.verify import verify
from fitproof.schema.models import catalogue

ROOT = Path(__file__).parents[2]
PINS = dict(re.findall(r"^([\w-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.M))


def make(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", "--no-print-directory", *arguments], cwd=cwd, capture_output=True, text=True, env=clean | environment
    )


@pytest.fixture
def copy(tmp_path) -> Path:
    """The Makefile alone in an empty folder."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    return tmp_path


def test_make_alone_prints_every_target_with_its_comment(copy):
    listed = re.findall(r"^  make (\w+) +\S", make(cwd=copy).stdout, re.M)
    declared = re.findall(r"^\.PHONY: (\w+)$", (ROOT / "Makefile").read_text(), re.M)
    assert listed == declared
    assert {"reproduce", "test", "lint", "bench", "build", "size"} <= set(listed)


def test_size_counts_releases_and_views_and_fails_above_twelve_megabytes(copy):
    assert "0 bytes" in make("size", cwd=copy).stdout
    for name, size in (("views/sub/a.parquet", 5_000_000), ("releases/b.tar.zst", 7_000_000)):
        path = copy / name
        path.parent.mkdir(parents=True)
        with path.open("wb") as file:
            file.truncate(size)
    at_limit = make("size", cwd=copy)
    assert at_limit.returncode == 0
    assert "12000000 bytes of 12000000" in at_limit.stdout
    (copy / "views" / "one").write_bytes(b"x")
    above = make("size", cwd=copy)
    assert above.returncode != 0
    assert "too large" in above.stderr


def test_an_old_python_is_refused_with_the_next_command(copy):
    old = copy / "oldpython"
    old.write_text("#!/bin/sh\necho 'Python 3.8.18'\nexit 1\n")
    old.chmod(0o755)
    made = make(".venv/.made", f"PYTHON={old}", cwd=copy)
    assert made.returncode != 0
    assert "expected: Python 3.11 or newer" in made.stderr
    assert "next:     make reproduce PYTHON=" in made.stderr
    assert not (copy / ".venv").exists()


def test_torch_is_installed_first_and_by_itself():
    recipe = (ROOT / "Makefile").read_text().split("$(VENV)/.test:")[1]
    commands = [line.strip() for line in recipe.splitlines() if line.startswith("\t")]
    assert commands[0] == "$(PIP) torch==2.13.0"
    assert "--constraint constraints.txt" in commands[1]
    assert "torch" not in PINS


def test_ci_runs_what_a_newcomer_runs():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert [line for line in script.read_text().splitlines() if line.startswith("make ")] == [
        "make reproduce",
        "make test",
    ]


def test_every_direct_dependency_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = project["dependencies"] + [r for name in ("loaders", "gpu", "scale", "test", "dev") for r in extras[name]]
    names = {re.match(r"[\w-]+", requirement)[0].lower() for requirement in wanted} - {"fitproof", "torch"}
    assert names - {name.lower() for name in PINS} == set()


def test_the_writer_is_pinned_as_the_views_need_it():
    assert {n: PINS[n] for n in ("duckdb", "pyarrow", "zstandard", "transformers", "peft")} == {
        "duckdb": "2.0.1",
        "pyarrow": "26.0.1",
        "zstandard": "0.25.0",
        "transformers": "5.17.0",
        "peft": "0.21.0",
    }


def test_rights_name_every_model_with_its_licence():
    text = (ROOT / "RIGHTS.md").read_text()
    for model in catalogue().values():
        if model.family != "tiny":
            assert f"| `{model.model_id}` | {model.licence} |" in text


def test_citation_and_project_agree():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (citation["version"], citation["license"]) == (project["version"], project["license"])


def test_contributing_stays_short():
    assert len((ROOT / "CONTRIBUTING.md").read_text().splitlines()) < 100


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "README.md", "docs/method.md", "docs/cli.md", "RIGHTS.md"])
def test_links_lead_somewhere(name):
    page = ROOT / name
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_documents_name_only_targets_and_verbs_that_exist():
    from fitproof.cli.app import VERBS

    verbs = {verb.__name__ for verb in VERBS}
    targets = set(re.findall(r"^\.PHONY: (\w+)$", (ROOT / "Makefile").read_text(), re.M))
    for name in ("CONTRIBUTING.md", "README.md", "docs/method.md", "docs/cli.md"):
        text = (ROOT / name).read_text()
        assert set(re.findall(r"`make (\w+)", text)) <= targets, name
        assert set(re.findall(r"`fitproof (\w+)", text)) <= verbs, name


def test_git_keeps_published_bytes_as_they_are():
    def attribute(name: str, path: str) -> str:
        shown = subprocess.run(
            ["git", "check-attr", name, "--", path], cwd=ROOT, capture_output=True, text=True, check=True
        )
        return shown.stdout.rsplit(": ", 1)[1].strip()

    for path in ("views/trials.parquet", "views/memory_samples/a.parquet", "releases/a.tar.zst", "release.json",
                 "MANIFEST.sha256", "README.md", "views/README.md"):  # fmt: skip
        assert attribute("text", path) == "unset", path
        assert attribute("merge", path) == "unset", path
        assert attribute("filter", path) == "unspecified", path
    assert attribute("text", "LICENSE") == "unset"
    assert attribute("diff", "views/README.md") == "set"


def test_hints_install_from_the_clone():
    """The package is used from its repository: a bare name would be looked up in a registry that does not hold it."""
    wrong = re.compile(r"pip install '?fitproof\b")
    assert [path for path in (ROOT / "reproduce").rglob("*.py") if wrong.search(path.read_text())] == []


def test_the_published_tree_verifies():
    """A change of CHANGELOG.md, LICENSE and the like needs `fitproof build` too, or every fresh clone fails."""
    report = verify(ROOT)
    assert report.problems == ()
