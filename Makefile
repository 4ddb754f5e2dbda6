# Two commands on a fresh machine: `make demo` and `make test`. Both do all the set-up.
.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-real soak lint types vectors bench fuzz clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
KERNEL := $(wildcard anchor/merkle/_kernel/*)
MODEL ?=
FUZZ_SECONDS ?= 60

help: ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

$(READY): pyproject.toml setup.py constraints.txt $(KERNEL)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'anchor needs Python 3.11 or newer; name one with: make PYTHON=python3.12'; exit 2; }
	$(PYTHON) -m venv $(VENV) || { echo 'No venv module; on Debian: apt-get install python3-venv'; exit 2; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: $(READY) ## train, publish, finalise, verify offline, tamper (MODEL=path: your own checkpoint)
	$(BIN)/python devnet/demo.py $(MODEL)

test: $(READY) ## every test but the slow ones
	$(BIN)/python -m pytest -n 2 -m 'not slow and not real and not soak'

test-slow: $(READY) ## the slow tests
	$(BIN)/python -m pytest -n 2 -m slow

test-real: $(READY) ## against a real beacon node (Node.js; installs Lodestar; 8 to 15 minutes)
	tests/real/install.sh
	timeout --foreground --signal=INT --kill-after=30 600 $(BIN)/python -m pytest -m real tests/real

soak: $(READY) ## a network of several nodes over 10,000 epochs of virtual time (long)
	$(BIN)/python -m pytest -m soak

lint: $(READY) ## style and types
	$(BIN)/ruff check .
	$(BIN)/mypy

vectors: $(READY) ## every official vector in VECTORS=path (a tree in the official layout)
	$(BIN)/anchor vectors --jobs 2 $(VECTORS)

bench: $(READY) ## speed, as ratios to peers in the same run (BENCH=options: python -m bench --help)
	$(BIN)/python -m bench $(BENCH)

fuzz: $(READY) ## any bytes, at all that reads bytes of others (needs atheris; FUZZ_SECONDS=60 for each)
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS)

clean: ## remove what the set-up made
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .fuzz
