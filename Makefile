# Two commands do everything: `make audit` and `make test`. Both make their own environment.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
OUT ?= audit

.PHONY: setup audit test suite test-extras test-kernels test-newest lint tree hostile bench frontier calibrate docs clean

setup: $(VENV)/.ready

audit: $(VENV)/.ready
	$(BIN)/auditor run --quick --data ml-100k --out $(OUT) --fail-on never

# Types are checked while the suite runs, for they keep one core busy.
test: $(VENV)/.ready
	@$(MAKE) --no-print-directory -j2 lint suite

suite: $(VENV)/.ready
	$(BIN)/python -m tests.compiled
	$(BIN)/pytest -n auto --dist worksteal -q --durations=10

# What needs Flower, Dask, Ray and the libraries to compare with: an environment of its own.
EXTRAS := $(VENV)-extras
test-extras:
	$(PYTHON) -m venv $(EXTRAS)
	$(EXTRAS)/bin/pip install --quiet --disable-pip-version-check torch==2.13.0 || true
	$(EXTRAS)/bin/pip install --quiet --disable-pip-version-check --editable '.[dev,flower,dask,ray,peers]'
	$(EXTRAS)/bin/pytest -q tests/targets/wrapped/flower tests/docs/test_blocks.py \
		tests/auditor/own/test_flower_app.py tests/auditor/run/test_clusters.py \
		tests/auditor/verification/test_peers.py

lint: $(VENV)/.ready tree
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=$(dir $(TREE)) $(BIN)/lint-imports
	$(BIN)/python -m tests.rooms
	$(BIN)/python -m tests.wording

# The package as it is installed, of links: for mypy, the import linter and MkDocs, which read no mapping.
TREE := build/tree/fedrec_auditor
tree:
	@mkdir -p $(TREE)
	@ln -sfn $(wildcard $(CURDIR)/src/fedrec_auditor/*) \
		$(addprefix $(CURDIR)/,accountants attacks auditor reports targets) $(TREE)

# The suite as other processors run it, then with today's newest releases of all that it needs.
test-kernels: $(VENV)/.ready
	$(BIN)/python -m tests.kernels
	@$(MAKE) --no-print-directory test-newest

# The newest releases that pyproject.toml allows, torch too; those that it does not allow are named.
NEWEST := $(VENV)-newest
test-newest:
	$(PYTHON) -m venv $(NEWEST)
	$(NEWEST)/bin/pip install --quiet --disable-pip-version-check --upgrade \
		--upgrade-strategy eager --editable '.[dev]'
	$(NEWEST)/bin/pip list --outdated --disable-pip-version-check
	$(NEWEST)/bin/pytest -n auto --dist worksteal -q

# Three thousand hostile names, files, recordings and callables: one line each, within seconds.
hostile: $(VENV)/.ready
	$(BIN)/python -m tests.hostile

bench: $(VENV)/.ready
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.tightness
	$(BIN)/python -m benchmarks.found_in_the_wild

# What protection costs and buys: all systems, some hours; a killed run goes on. It needs MovieLens 1M, too.
frontier: $(VENV)/.ready
	$(BIN)/python -m benchmarks.frontier --out frontier

calibrate: $(VENV)/.ready
	$(BIN)/pytest -n auto --dist worksteal -q -rP -m calibration

# The site, into site/. A warning is an error.
docs: $(VENV)/.ready tree
	$(BIN)/mkdocs build --strict

# The CPU build of torch where the index has it as 2.13.0; otherwise whatever torch pip resolves.
$(VENV)/.ready: pyproject.toml setup.py
	@$(PYTHON) -c 'import sys; sys.exit("Expected Python 3.11 or newer, got %d.%d. Name one: make PYTHON=python3.12" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check torch==2.13.0 || \
		echo "torch 2.13.0 is not to be had here; installing another, which serves as well."
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist site *.egg-info
