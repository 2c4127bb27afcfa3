# `make demo` and `make test` do all the set-up on a fresh machine: Python (>= 3.11) and make are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help demo test lint tables lock clean
.DEFAULT_GOAL := help

help:
	@echo "make demo   train on embedded real data, print the table, write gauge-demo/report.html"
	@echo "make test   run the whole test suite"
	@echo "make lint   ruff, mypy and the import contract"
	@echo "make tables write the tables of README and docs from the result files"

# The lock file pins everything, so nothing but this project is left to install after it.
$(VENV)/.installed: requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "GAUGE needs Python 3.11 or newer; try: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $@

demo: $(VENV)/.installed
	$(BIN)/gauge demo

test: $(VENV)/.installed
	$(BIN)/pytest -n 2 --dist loadscope src tests

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

tables: $(VENV)/.installed
	$(BIN)/python docs/generate.py

lock: $(VENV)/.installed
	{ grep '^#' requirements.lock; $(BIN)/pip freeze --exclude-editable | sed 's/+cpu$$//'; } > requirements.new
	mv requirements.new requirements.lock

clean:
	rm -rf $(VENV) build *.egg-info src/*.egg-info
