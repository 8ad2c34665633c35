# Needs Python >= 3.11, make and a package index; `make demo PYTHON=python3.12` chooses the interpreter.
# Everything made lands in .venv: `rm -rf .venv` starts afresh.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install -qq --no-input --disable-pip-version-check --constraint constraints.txt
SOURCES := cli datasource loaders samplers __init__.py

.PHONY: demo test test-interop soak bench bench-quick bench-check bench-ours bench-report fixtures lint format types
# Two targets that install into one environment at once would break it.
.NOTPARALLEL:

demo: $(VENV)/demo.stamp
	$(BIN)/python notebooks/demo.py

test: $(VENV)/test.stamp
	$(BIN)/python -m pytest

# The long runs: more seeds, more mutated files, more random kills.
soak: $(VENV)/test.stamp
	$(BIN)/python -m pytest --soak

# Beside all peers, in about an hour: `make bench WORKLOADS=a,b,g PEERS=arrayfeed,grain` measures a part of it again.
# What is measured is kept below docs/benchmarks as JSON, and the report made of all that is there. A step that fails stops none.
WORKLOADS ?= all
PEERS ?= all
ROUNDS ?=
PEERS_RUN := PYTHONPATH=tests $(BIN)/python -m benchmarks.peers

bench: $(VENV)/test.stamp $(VENV)/bench/made $(VENV)/fixtures/made
	-$(PEERS_RUN).compare --workloads $(WORKLOADS) --peers $(PEERS) $(ROUNDS:%=--rounds %)
	-$(PEERS_RUN).special --workloads $(WORKLOADS) --peers $(PEERS) $(ROUNDS:%=--rounds %)
	-$(PEERS_RUN).own_time --workloads $(WORKLOADS)
	$(PEERS_RUN).report

bench-report: $(VENV)/test.stamp
	$(PEERS_RUN).report

# In two minutes, against bounds only, as tests: what falls far behind its bound is a regression. In CI they run smaller still.
bench-quick: $(VENV)/test.stamp
	$(BIN)/python -m pytest tests/benchmarks/peers/test_bounds.py --bench -s

# Each installed peer over each workload, every record counted, in all its configurations.
bench-check: $(VENV)/test.stamp $(VENV)/bench/made $(VENV)/fixtures/made
	$(BIN)/python -m pytest tests/benchmarks/peers --bench

# Each part of the library by itself, at full size, with its tables shown; small, they are tests, too.
bench-ours: $(VENV)/test.stamp
	$(BIN)/python -m pytest tests/benchmarks --bench -s

# What TFDS itself writes and reads, for the tests to compare with.
fixtures: $(VENV)/fixtures/made
	$(VENV)/fixtures/bin/python tests/fixtures/make_tfds.py
	$(VENV)/fixtures/bin/python tests/fixtures/make_tfrecord.py

# What we write, read by TFDS and Grain themselves.
test-interop: $(VENV)/test.stamp $(VENV)/fixtures/made
	ARRAYFEED_TFDS_PYTHON="$(CURDIR)/$(VENV)/fixtures/bin/python" $(BIN)/python -m pytest tests/interop

lint: $(VENV)/test.stamp types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/test.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# mypy knows a package by its folder's name, and a checkout can be called anything: it reads through a link of the right
# name. Run from beside the link it is given the package's folders one by one, so it never walks into .venv or build.
types: $(VENV)/test.stamp
	@mkdir -p $(VENV)/src && ln -sfn "$(CURDIR)" $(VENV)/src/arrayfeed
	cd $(VENV)/src && ../bin/python -m mypy --config-file arrayfeed/pyproject.toml $(addprefix arrayfeed/,$(SOURCES) tests notebooks)

# One stamp an extra, so that the demo does not wait for what only the tests need. torch goes first and alone: the
# constraint then decides which build is there before anything else asks for one.
$(VENV)/%.stamp: pyproject.toml constraints.txt | $(VENV)/made.stamp
	@echo "Installing arrayfeed[$*] into $(VENV) (once; minutes on a slow network)"
	@$(PIP_INSTALL) torch
	@$(PIP_INSTALL) --editable ".[$*]"
	@touch $@

# TensorFlow stays in an environment of its own: it takes minutes to install, and no other library's versions depend on it.
$(VENV)/fixtures/made: pyproject.toml | $(VENV)/made.stamp
	@echo "Installing TensorFlow and TFDS into $(VENV)/fixtures (once; minutes)"
	@$(PYTHON) -m venv --clear $(VENV)/fixtures
	@$(VENV)/fixtures/bin/python -m pip install -qq --no-input --disable-pip-version-check ".[fixtures]"
	@rm -rf build  # where pip leaves a copy of the library, which the next wheel would be made from
	@touch $@

# The peers that arrayfeed is measured beside. One that cannot be installed is left out, and the report says so.
$(VENV)/bench/made: pyproject.toml tests/benchmarks/peers/install.py | $(VENV)/made.stamp
	@echo "Installing the peers into $(VENV)/bench (once; minutes)"
	@$(PYTHON) -m venv --clear $(VENV)/bench
	-@$(VENV)/bench/bin/python tests/benchmarks/peers/install.py
	@touch $@

$(VENV)/made.stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"arrayfeed needs Python 3.11 or newer, this is {sys.version}: make PYTHON=...")'
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@
