# Every target makes what it needs: .venv from a Python 3.10 to 3.13 (or from the one that PYTHON names), then packages.
# A stamp in .venv says which extras are in; it is made anew when pyproject.toml changes.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

BIN := .venv/bin
WHEEL := $(CURDIR)/.venv/wheel
# Byte code is written when a module is first imported: compiling all of it takes longer than downloading it.
# Importing TVM takes 0.6 s with its byte code and 1.5 s without, which no setting of the shell should cause.
unexport PYTHONDONTWRITEBYTECODE
INSTALL := -m pip install --quiet --disable-pip-version-check --no-compile
DOCTESTS = PYTHONPATH=$(WHEEL) TVTF_CACHE_DIR=$(CURDIR)/.venv/cache $(BIN)/pytest -n $(WORKERS) \
	-o pythonpath= -p no:cacheprovider --doctest-modules --pyargs tvtf
KERAS = $$($(CURDIR)/.venv/keras/bin/python -c 'import importlib.util as u; print(u.find_spec("keras").submodule_search_locations[0])')
KERAS_TESTS = PYTHONSAFEPATH=1 PYTHONPATH=$(CURDIR) $(CURDIR)/.venv/keras/bin/pytest -q -c /dev/null --rootdir=. --assert=plain \
	-p no:cacheprovider -p tests.keras.on_tvtf --disable-warnings --timeout=300
SEEDS := 5
WORKERS := 2

.PHONY: help train text test test-all test-gpu test-oracle test-keras goldens pool lint bench docs wheel clean

help:
	@echo "make train        train on scanned digits: accuracy over $(SEEDS) seeds, checkpoints, ONNX"
	@echo "make text         train a character-level transformer on Python's standard library"
	@echo "make test         lint, types, import rules, tests, examples: what CI runs"
	@echo "make test-all     make test, with the longer sweeps"
	@echo "make test-gpu     on a GPU: the compiled half of the tests, and benchmarks"
	@echo "make test-oracle  compare with TensorFlow itself"
	@echo "make test-keras   Keras's own tests, on tvtf"
	@echo "make goldens      write TensorFlow's answers to tests/golden anew, all or those of NAMES"
	@echo "make pool         translate the threads of kernels, pool.c, to LLVM (with clang 19, or what CLANG names)"
	@echo "make lint         only lint, types and import rules"
	@echo "make docs         the documentation as a site, in site/"
	@echo "make wheel        the package as it is installed, in .venv/wheel"
	@echo "make bench        benchmarks, side by side with TensorFlow, JAX and PyTorch"
	@echo "make clean        remove .venv and what the tools left"

train: .venv/train
	$(BIN)/tvtf train digits --seeds $(SEEDS)

text: .venv/train
	$(BIN)/tvtf train text

test: lint
	$(BIN)/pytest -n $(WORKERS) -m "not oracle"
	$(DOCTESTS)

test-all: lint
	$(BIN)/pytest -n $(WORKERS) -m "(sweep or not sweep) and not oracle"
	$(DOCTESTS)

test-gpu: .venv/dev
	$(BIN)/pytest -n $(WORKERS) -m gpu
	$(BIN)/python -m benchmarks.gpu

test-oracle: .venv/oracle/ready
	.venv/oracle/bin/pytest -m oracle

# Without -c pytest takes this project's settings, which make Keras's warnings errors. xdist's workers would look for modules
# where they are started: Keras's folder has one named random. Tests of the wrappers have addresses in their names, others in
# each worker.
test-keras: .venv/keras/ready
	cd $(KERAS) && $(KERAS_TESTS) -n $(WORKERS) --ignore=src/wrappers src && $(KERAS_TESTS) src/wrappers

# The version of TensorFlow is the one that pyproject.toml's extra `oracle` names.
goldens: .venv/oracle/ready
	.venv/oracle/bin/python tests/golden_writer.py $(NAMES)

pool: .venv/dev
	$(BIN)/python tests/runtime/pool_writer.py

# Checkers don't know pyproject.toml's package-dir: types and import rules are checked on the wheel's layout.
lint: .venv/dev wheel
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	MYPYPATH=$(WHEEL) $(BIN)/mypy -p tvtf
	cd $(WHEEL) && $(CURDIR)/$(BIN)/lint-imports --config $(CURDIR)/pyproject.toml --cache-dir $(CURDIR)/.import_linter_cache

# Of wheels, only those of users need compiled subroutines, which take three minutes.
wheel: .venv/dev
	@rm -rf build $(WHEEL)
	@TVTF_SUBROUTINES=0 $(BIN)/python $(INSTALL) --no-deps --no-build-isolation --target $(WHEEL) .
	@rm -rf build

# Strictly: a broken link or anchor is an error. The notice that is silenced is about MkDocs 2, which pyproject.toml excludes.
docs: .venv/dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "site/index.html"

bench: .venv/bench/ready
	.venv/bench/bin/python -m benchmarks
	.venv/bench/bin/python -m benchmarks.first_call
	.venv/bench/bin/python -m benchmarks.memory

clean:
	rm -rf .venv build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

export PYTHON

.venv/python:
	@python=$$(bash .ci/python) && $$python -m venv .venv && touch $@

.venv/train: .venv/python pyproject.toml
	$(BIN)/python $(INSTALL) --editable '.[train]'
	@touch $@

.venv/dev: .venv/python pyproject.toml
	$(BIN)/python $(INSTALL) 'setuptools>=77' --editable '.[dev]'
	@touch $@ .venv/train

# TensorFlow and its like pin packages of their own: each group gets an environment to itself.
.venv/oracle/ready: .venv/python pyproject.toml
	$(BIN)/python -m venv .venv/oracle
	.venv/oracle/bin/python $(INSTALL) --editable '.[oracle]'
	@touch $@

# Keras's tests compare with JAX, and have grain and pandas as sources of data.
.venv/keras/ready: .venv/python pyproject.toml
	$(BIN)/python -m venv .venv/keras
	.venv/keras/bin/python $(INSTALL) --editable '.[dev]' jax grain pandas pytest-timeout
	@touch $@

.venv/bench/ready: .venv/python pyproject.toml
	$(BIN)/python -m venv .venv/bench
	.venv/bench/bin/python $(INSTALL) --editable '.[bench]'
	@touch $@
