# What a new user types, on Linux with Python >= 3.11 and make:
#   make demo    set up .venv and run the demonstration; it prints where each report is
#   make test    set up .venv and run every check that CI runs
#   make bench   set up .venv and run what is measured rather than asserted
#   make lock    resolve the dependencies afresh into requirements.lock
#   make clean   remove .venv, caches, build outputs and what make demo wrote

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.tilegate-setup
EXTRAS := test,bench
PIP := -m pip --disable-pip-version-check

.PHONY: help setup demo test bench lock clean check-python

help:
	@sed -n 's/^#   //p' Makefile

setup: $(STAMP)

$(STAMP): pyproject.toml requirements.lock
	@$(MAKE) --no-print-directory check-python
	@echo "setting up $(VENV) (the first time takes a minute or two)"
	@test -x $(BIN)/python && $(BIN)/python -c '' || $(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python $(PIP) install --quiet -r requirements.lock
	@PYTHONWARNINGS=ignore $(BIN)/python $(PIP) install --quiet --no-deps --no-build-isolation -e .
	@touch $@

check-python:
	@command -v $(PYTHON) >/dev/null || { echo "error: no $(PYTHON) found. Install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: tilegate needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) -V 2>&1). Name a newer one: make PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "error: $(PYTHON) cannot make virtual environments. On Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }

demo: setup
	@$(BIN)/tilegate demo

test: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest

bench: setup
	$(BIN)/python -m tests.benchmarks.end_to_end
	$(BIN)/python -m tests.benchmarks.profiles

# A fresh environment resolves the ranges of pyproject.toml; the lock is what it got, without the project itself.
# It is written in one step, so that a failed resolve leaves the old lock.
lock:
	@$(MAKE) --no-print-directory check-python
	@$(PYTHON) -m venv --clear .venv-lock
	@.venv-lock/bin/python $(PIP) install --quiet --upgrade setuptools
	@.venv-lock/bin/python $(PIP) install --quiet '.[$(EXTRAS)]'
	@{ echo '# Exact versions of everything that make installs. Written by make lock; do not edit.'; \
	   .venv-lock/bin/python $(PIP) freeze --exclude tilegate --exclude pip --exclude wheel --all; } > .venv-lock/requirements.lock
	@! grep -nE '@ |://' .venv-lock/requirements.lock || { echo "error: the lock names a file or an address instead of a version" >&2; exit 1; }
	@mv .venv-lock/requirements.lock requirements.lock
	@rm -rf .venv-lock build
	@echo "requirements.lock: $$(grep -c == requirements.lock) packages"

clean:
	rm -rf $(VENV) .venv-lock demo-out build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find accelmodel schemas flows reports tests -name __pycache__ -type d -prune -exec rm -rf {} +
