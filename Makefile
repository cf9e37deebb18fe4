# make eval   virtual environment, installation, the 18 packaged cases: tables under runs/
# make test   virtual environment, installation, all tests
# make lint   the style and type checks
# make docs   the site, under build/site
#
# PYTHON=python3.12  another interpreter     VENV=folder  another environment
# PIP_ARGS="..."     options for pip         ARGS="..."   options for the command itself

PYTHON ?= python3
VENV ?= .venv
PIP_ARGS ?=
ARGS ?=

BIN := $(VENV)/bin
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	--constraint constraints.txt $(PIP_ARGS)
INPUTS := pyproject.toml setup.py constraints.txt

.PHONY: eval test lint docs clean
.DELETE_ON_ERROR:

eval: $(VENV)/.eval
	$(BIN)/oretro eval $(ARGS)

test: $(VENV)/.test
	$(BIN)/python -m pytest $(ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.dev
	$(BIN)/mkdocs build --strict

$(VENV)/.eval: $(BIN)/python $(INPUTS)
	$(INSTALL) --editable ".[data]"
	@touch $@

$(VENV)/.test: $(BIN)/python $(INPUTS)
	$(INSTALL) --editable ".[data,plots,test]"
	@touch $@

$(VENV)/.dev: $(BIN)/python $(INPUTS)
	$(INSTALL) --editable ".[dev]"
	@touch $@

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

clean:
	rm -rf $(VENV) build dist *.egg-info
