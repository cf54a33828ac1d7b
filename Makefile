# Two commands do everything: `make audit` and `make test`. Both make their own environment.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
OUT ?= audit
# Words for pip: a release that is tested, as the CPU build where the index has that. Elsewhere
# TORCH='torch --index-url https://download.pytorch.org/whl/cpu' avoids gigabytes of CUDA.
TORCH ?= torch==2.13.0
PIP := pip install --quiet --disable-pip-version-check

.PHONY: setup audit test suite test-extras test-kernels test-newest test-versions lint tree hostile bench frontier \
	calibrate docs dist sbom clean

setup: $(VENV)/.ready

audit: $(VENV)/.ready
	$(BIN)/auditor run --quick --data ml-100k --out $(OUT) --fail-on never

# Types are checked while the suite runs, for they keep one core busy.
test: $(VENV)/.ready
	@$(MAKE) --no-print-directory -j2 lint suite

suite: $(VENV)/.ready
	$(BIN)/python -m tests.compiled
	$(BIN)/pytest -n auto --dist worksteal -q --durations=10

# Tests with Flower, Dask and Ray, in an environment of its own.
EXTRAS := $(VENV)-extras
test-extras:
	$(PYTHON) -m venv $(EXTRAS)
	$(EXTRAS)/bin/$(PIP) $(TORCH) || true
	$(EXTRAS)/bin/$(PIP) --editable '.[dev,flower,dask,ray]'
	$(EXTRAS)/bin/pytest -q tests/targets/wrapped/flower tests/docs/test_blocks.py \
		tests/auditor/own/test_flower_app.py tests/auditor/run/test_clusters.py

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
	$(NEWEST)/bin/$(PIP) --upgrade --upgrade-strategy eager --editable '.[dev]'
	$(NEWEST)/bin/pip list --outdated --disable-pip-version-check
	$(NEWEST)/bin/pytest -n auto --dist worksteal -q

# Fast tests with the lowest releases that pyproject.toml allows on the oldest Python, and with the newest on all others.
# uv brings the Pythons that this machine lacks; UV_TORCH_BACKEND=cpu avoids gigabytes of CUDA.
VERSIONS ?= 3.11-lowest 3.12-newest 3.13-newest 3.14-newest
FAST := tests/contracts/test_accountants.py tests/contracts/test_mechanisms.py tests/auditor/tracing \
	tests/auditor/commands tests/test_package.py
UV := $(VENV)-uv/bin/uv
test-versions: $(addprefix test-on-,$(VERSIONS))
test-on-%: $(UV)
	$(UV) venv --quiet --clear --python $(firstword $(subst -, ,$*)) $(VENV)-$*
	$(UV) pip install --quiet --python $(VENV)-$* --resolution $(if $(findstring lowest,$*),lowest-direct,highest) \
		--editable '.[test]'
	$(VENV)-$*/bin/pytest -q $(FAST)
$(UV):
	$(PYTHON) -m venv $(VENV)-uv
	$(VENV)-uv/bin/$(PIP) uv

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

$(VENV)/.ready: pyproject.toml setup.py
	@$(PYTHON) -c 'import sys; sys.exit("Expected Python 3.11 or newer, got %d.%d. Name one: make PYTHON=python3.12" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/$(PIP) $(TORCH) || echo "$(TORCH) is not to be had here; installing another, which serves as well."
	$(BIN)/$(PIP) --editable '.[dev]'
	touch $@

# Files that a release uploads, into dist/: both distributions, with README as an index shows it.
RELEASE := $(VENV)-release
dist: pyproject.toml
	rm -rf dist
	$(PYTHON) -m venv --clear $(RELEASE)
	$(RELEASE)/bin/$(PIP) build twine pip-licenses cyclonedx-bom
	$(RELEASE)/bin/python -m build
	$(RELEASE)/bin/twine check --strict dist/*

# Licences of the wheel's dependencies (GPL and LGPL are an error), and the SBOM, into build/.
PLAIN := $(VENV)-plain
sbom: dist
	$(PYTHON) -m venv --clear $(PLAIN)
	$(PLAIN)/bin/$(PIP) $(TORCH) || true
	$(PLAIN)/bin/$(PIP) dist/*.whl
	@mkdir -p build
	$(RELEASE)/bin/pip-licenses --python $(PLAIN)/bin/python --with-urls --format markdown \
		--partial-match --fail-on 'GPL;General Public' --output-file build/licences.md
	$(RELEASE)/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
		--output-file build/sbom.cdx.json $(PLAIN)/bin/python

clean:
	rm -rf $(VENV) $(VENV)-* build dist site *.egg-info
