# fitproof. `make` alone prints the targets: the text after "##" is the help.
# PYTHON=/path/to/python3.12 chooses the interpreter; otherwise the first Python >= 3.11 on PATH is taken.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet
# releases/ and views/ travel into every clone and onto every GPU machine.
SIZE_LIMIT_BYTES := 12000000

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: reproduce
reproduce: $(VENV)/.core ## verify every archive, rebuild every view, compare with the published ones (no GPU, no torch)
	$(BIN)/fitproof reproduce --root .

.PHONY: test
test: $(VENV)/.test ## run all tests on the CPU (installs torch on the first run)
	$(BIN)/python -m pytest -n 2

.PHONY: lint
lint: $(VENV)/.lint ## ruff, and fail on a stale card or command reference
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m fitproof.hub.card --root . --check
	$(BIN)/python -m fitproof.cli.reference --check

.PHONY: docs
docs: $(VENV)/.core ## write docs/cli.md from the real help
	$(BIN)/python -m fitproof.cli.reference

.PHONY: build
build: $(VENV)/.core ## maintainers: write views, card, release.json and MANIFEST.sha256 from releases/
	$(BIN)/fitproof build --root .

.PHONY: bench
bench: $(VENV)/.test ## run every benchmark; each prints ratios against a bound or a peer measured in the same run
	@set -e; shopt -s nullglob; for script in benchmarks/bench_*.py; do echo "== $$script" >&2; $(BIN)/python "$$script"; done

.PHONY: size
size: ## fail when releases/ and views/ together exceed 12 MB
	@bytes=$$(find releases views -type f -printf '%s\n' 2>/dev/null | awk '{s += $$1} END {print s + 0}'); \
	echo "releases/ + views/: $$bytes bytes of $(SIZE_LIMIT_BYTES)"; \
	if [ "$$bytes" -gt $(SIZE_LIMIT_BYTES) ]; then echo "too large: pack fewer samples or fewer logs" >&2; exit 1; fi

.PHONY: clean
clean: ## remove caches and build leftovers; the virtual environment stays
	rm -rf build dist .pytest_cache .ruff_cache .hypothesis
	find reproduce tests verification benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# One stamp file per layer: a second run installs nothing and needs no network.
$(VENV)/.made:
	@for python in $(if $(PYTHON),"$(PYTHON)",python3 python3.11 python3.12 python3.13); do \
	  if "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found="$$python"; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "no usable Python" >&2; \
	  echo "  found:    $(if $(PYTHON),$(PYTHON),$$(python3 --version 2>&1 | head -1))" >&2; \
	  echo "  expected: Python 3.11 or newer with the venv module" >&2; \
	  echo "  next:     make reproduce PYTHON=/path/to/python3.11" >&2; \
	  exit 3; \
	fi; \
	echo "virtual environment $(VENV) from $$("$$found" --version)" >&2; \
	"$$found" -m venv $(VENV)
	@touch $@

$(VENV)/.core: $(VENV)/.made pyproject.toml constraints.txt
	$(PIP) --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.lint: $(VENV)/.core
	$(PIP) --constraint constraints.txt ruff
	@touch $@

# torch goes first and by itself, so that no other requirement chooses its version or build.
$(VENV)/.test: $(VENV)/.core
	$(PIP) torch==2.13.0
	$(PIP) --constraint constraints.txt --editable '.[test]'
	@touch $@
