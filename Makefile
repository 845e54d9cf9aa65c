# make sweep:       from a fresh clone to a good classifier of handwritten digits
# make test:        lint, types, the tests without Ray and a short one of every promise with it
# make integration: all other tests that start Ray: depth, kills, several nodes, buckets
# make foreign:     tests of networks of torchvision and timm, which it installs
# make docs:        every command that the README and the docs show
# make site:        the documentation as a site, in site/, with no broken link
# make faults:      searches that are killed come to the same as one that is not
# make snapshots:   rewrites tests/snapshots/, the texts that tests compare with
# make gpu:         all that only a GPU can show, in at most 45 minutes; writes benchmarks/GPU.md
#
# Once installed, on 2 quiet cores: make test 3.5 minutes, make integration 11, make docs 4

PYTHON ?= $(shell command -v python3.11 || echo python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev
# What the tests need beside tuner; with EXTRAS=dev,wandb,mlflow,onnx,hf,examples those too
EXTRAS ?= dev
# Processes that run tests; in make test, one of them runs all that starts Ray
WORKERS ?= 2

# Documents whose code has lines of 100, as their text has; all other code has lines of 88
PAGES := *.md docs/*.md docs/*.ipynb examples/*.md benchmarks/*.md

# Compiled modules are kept: else every process that a test starts compiles tuner anew
unexport PYTHONDONTWRITEBYTECODE

.PHONY: sweep install install-dev test lint ruff house types pytest integration nodes foreign docs site faults gpu snapshots reference format clean

sweep: $(INSTALLED)
	@$(BIN)/tuner run digits training.width=4 scheduler.max_t=3

install: $(INSTALLED)

install-dev: $(INSTALLED_DEV)

# torch first and pinned: an unpinned one brings gigabytes of CUDA libraries
$(INSTALLED): pyproject.toml setup.py constraints.txt
	@echo "installing into $(VENV), once: a minute or more"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) torch
	@$(PIP) --editable '.[weights]'
	@touch $@

$(INSTALLED_DEV): $(INSTALLED)
	@echo "installing what the tests need, once"
	@$(PIP) --editable '.[$(EXTRAS)]'
	@touch $@

# house and types, each of one process, run beside the tests
test: ruff
	@$(MAKE) --no-print-directory --jobs 3 house types pytest

lint: ruff house

ruff: $(INSTALLED_DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/ruff format --check --line-length 100 $(PAGES)

house: $(INSTALLED_DEV)
	$(BIN)/python -m benchmarks.house --limits >/dev/null

types: $(INSTALLED_DEV)
	$(BIN)/mypy

pytest: $(INSTALLED_DEV)
	$(BIN)/pytest -n $(WORKERS) --dist loadfile -m 'not (slow or nodes or docs)'

integration: $(INSTALLED_DEV)
	$(BIN)/pytest -n $(WORKERS) --dist loadscope -m 'slow or nodes'

# of `make integration`, those with several nodes or a bucket
nodes: $(INSTALLED_DEV)
	$(BIN)/pytest -m nodes

docs: $(INSTALLED_DEV)
	$(BIN)/pytest -n $(WORKERS) --dist loadscope -m docs

# Last: transformers cannot be imported beside a torchvision that is built for another torch
foreign: $(INSTALLED_DEV)
	@$(PIP) --editable '.[torchvision,timm]'
	$(BIN)/pytest -n $(WORKERS) -k 'torchvision or timm' tests/vision

site: $(BIN)/mkdocs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

$(BIN)/mkdocs: $(INSTALLED)
	@$(PIP) --editable '.[site]'
	@touch $@

# one round of each kind; without --rounds, thirty
faults: $(INSTALLED_DEV)
	$(BIN)/python -m benchmarks.faults --rounds 1
	$(BIN)/python -m benchmarks.faults --rounds 1 --searches random --targets silent
	$(BIN)/python -m benchmarks.faults --rounds 1 --searches hyperopt --targets power,vanished

# without a GPU it says so; on any machine: GPU="--device cpu --dry"
gpu: $(INSTALLED_DEV)
	$(BIN)/python -m benchmarks.gpu_list $(GPU)

snapshots: $(INSTALLED_DEV)
	rm -r tests/snapshots
	$(BIN)/pytest -n $(WORKERS) --dist loadfile -m 'not (slow or nodes or docs)' --rewrite-snapshots

# docs/spec.md is what `tuner spec` prints
reference: $(INSTALLED)
	$(BIN)/tuner spec > docs/spec.md

format: $(INSTALLED_DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/ruff format --line-length 100 $(PAGES)

clean:
	rm -rf $(VENV) build site *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
