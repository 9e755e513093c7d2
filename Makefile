# Slipstream's commands. Needs Python 3.11 or newer and make; `make check` also wants Node.js.
# Everything lands in git-ignored folders: .venv, .engines, node_modules, var, dist.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
RACE_EXIT ?=

# pip installs exactly what the lock files name, checked by hash; then the clone itself, without asking for more.
RUN_STAMP := $(VENV)/.installed-run
DEV_STAMP := $(VENV)/.installed-dev
NODE_STAMP := node_modules/.installed

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help race demo test install check format lock engines race-vllm vendor flags wheel clean types-js

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

race: $(RUN_STAMP) ## Set up, open the dashboard, run a race on the embedded replay engine (RACE_EXIT=1: stop after it)
	$(BIN)/slipstream up --race recipes/replay-b300.yaml $(if $(RACE_EXIT),--exit-after-race)

demo: race ## The same as race

test: $(DEV_STAMP) ## Set up and run the tests
	$(BIN)/python -m pytest $(PYTEST_ARGS)

install: $(DEV_STAMP) ## Set up everything for work on the code

check: $(DEV_STAMP) $(NODE_STAMP) ## Format, lint, types, import walls, JavaScript types, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(MAKE) --no-print-directory types-js
	$(BIN)/python -m pytest $(PYTEST_ARGS)

types-js: $(NODE_STAMP)
	node_modules/.bin/tsc --project tsconfig.json

format: $(DEV_STAMP) ## Format the code and mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

engines: $(DEV_STAMP) ## Put real engines under .engines/ (vLLM for the CPU; several GB)
	$(BIN)/python tests/engines/install.py

race-vllm: $(DEV_STAMP) ## Race a tiny Gemma 4 on the real vLLM of `make engines`
	$(BIN)/slipstream race recipes/tiny-gemma4-vllm-cpu.yaml

vendor: $(DEV_STAMP) $(NODE_STAMP) ## Refresh static/vendor from the locked npm packages
	$(BIN)/python tests/house/vendor.py

flags: $(DEV_STAMP) ## Write docs/flags.md from the table of flags
	$(BIN)/python tests/house/flags_page.py

UV_COMPILE := $(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url --no-emit-find-links \
	--custom-compile-command "make lock" $(LOCK_ARGS)

lock: ## Write the lock files anew from pyproject.toml (LOCK_ARGS=--upgrade for newer versions)
	@test -x $(BIN)/uv || { echo "uv is missing: run make install first" >&2; exit 1; }
	$(UV_COMPILE) --extra postgres --extra build --output-file requirements.lock
	$(UV_COMPILE) --extra postgres --extra build --extra dev --constraint requirements.lock --output-file requirements-dev.lock

wheel: $(DEV_STAMP) ## Build dist/*.whl
	$(BIN)/python -m build --wheel --no-isolation --outdir dist

clean: ## Remove what was built and cached; keeps .venv, .engines and var (your races)
	rm -rf build dist node_modules .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find app workers tests bench migrations -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Slipstream needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)." >&2; \
	  echo "Say which one to use: make $(or $(MAKECMDGOALS),race) PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(RUN_STAMP): requirements.lock pyproject.toml | $(BIN)/python
	@echo "Setting up $(VENV) from requirements.lock …"
	$(PIP) install --require-hashes --only-binary :all: -r requirements.lock
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(DEV_STAMP): requirements-dev.lock pyproject.toml | $(BIN)/python
	@echo "Setting up $(VENV) from requirements-dev.lock …"
	$(PIP) install --require-hashes --only-binary :all: -r requirements-dev.lock
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@ $(RUN_STAMP)

$(NODE_STAMP): package.json package-lock.json
	@command -v npm >/dev/null || { echo "The JavaScript type check needs Node.js 20 or newer with npm." >&2; \
	  echo "Install it (Debian: apt-get install nodejs npm) and run make check again." >&2; exit 1; }
	npm ci --ignore-scripts --silent
	@touch $@
