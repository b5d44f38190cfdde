# Everything a person types. `make help` lists it.

PYTHON ?= python3
LAB_OPTIONS ?=
BIN := .venv/bin
READY := .venv/ready
# A folder made by `make wheelhouse` replaces the package index: nothing is fetched then.
PIP_SOURCE := $(if $(wildcard wheelhouse),--no-index --find-links wheelhouse)
INSTALL := $(BIN)/python -m pip install --quiet --no-compile $(PIP_SOURCE) --no-deps
# Four at a time, a file or a class each: half of a Spark test is waiting. Notebooks begin, as the
# tests' sessions get the JVMs that are warm then; the longest file follows, the quick ones come last.
PYTEST := $(BIN)/python -m pytest -n 4 --dist loadscope --no-loadscope-reorder
LONG_TESTS_FIRST := notebooks $(addprefix tests/,integration faults cluster services browser unit)
# Formats, the builder and `observe`; the kit's own wheel is among the tests of versions.
WITH_OLDEST := $(patsubst %,tests/integration/test_%.py,builder cpu_log file_lines network_lines \
	observe item_stream earlier_version)
NBVAL := --nbval --nbval-cell-timeout=600 --nbval-sanitize-with tests/nbval_sanitize.cfg

# Where this is set, as in many containers, each of Spark's processes compiles the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help lab test soak again style check demo cluster-demo doctor services notebooks bench bench-peers bench-long conformance test-versions test-oldest book lock wheelhouse chromium rsyslog clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' Makefile

lab: $(READY) ## open the workbook in JupyterLab
	-$(BIN)/python -m tutorial_pkg doctor --quick
	$(BIN)/jupyter lab --ip=127.0.0.1 --ServerApp.root_dir="$(CURDIR)" $(if $(filter 0,$(shell id -u)),--allow-root) \
		$(LAB_OPTIONS) notebooks/00_start_here.ipynb

test: style ## style, types, all notebooks, and one proof of every promise (a quarter of an hour)
	$(PYTEST) $(NBVAL) $(LONG_TESTS_FIRST)

soak: $(READY) ## the rest: many kills, all subjects of the kit, the book, both compilers, all versions (some hours; PART=3/15 is a part)
	$(PYTEST) -m soak $(if $(PART),--part $(PART)) tests
	$(if $(PART),,$(MAKE) test-versions)

again: $(READY) ## what failed in the last run once more, alone
	$(BIN)/python -m tests.again

style: $(READY) ## the code's style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: style ## the quick tests: style, types, unit, one real stream (under two minutes)
	$(PYTEST) -q tests/unit
	$(BIN)/python -m tutorial_pkg doctor

cluster-demo: $(READY) ## two queries on a cluster of two workers that loses one, and the account
	$(BIN)/python -m workbook cluster-demo

demo: $(READY) ## log this machine's CPU with Spark for some seconds and draw it
	$(BIN)/python -m workbook demo

doctor: $(READY) ## check this machine
	$(BIN)/python -m tutorial_pkg doctor

services: $(READY) ## which real servers are there for lessons and tests, and which version
	$(BIN)/python -m workbook.services

notebooks: $(READY) ## run all notebooks from clean kernels and store their outputs
	$(BIN)/python -m workbook.rerun notebooks/*.ipynb

bench: $(READY) ## measure the connectors beside Spark's own, write benchmarks/RESULTS.md (half an hour)
	$(BIN)/python benchmarks/run.py

bench-peers: $(READY) ## the same with Flink and Bytewax, which it installs (an hour)
	$(BIN)/python benchmarks/run.py --peers

bench-long: $(READY) ## an hour at 20,000 lines a second: what grows? Writes benchmarks/LONG_RUN.md
	$(BIN)/python benchmarks/bench_long_run.py

conformance: $(READY) ## examine formats, ours, Spark's and others', and write docs/conformance.md (a quarter of an hour)
	PYTHONPATH=. $(BIN)/python docs/conformance.py

test-versions: $(READY) ## all tests on real queries with Spark 4.0 to 4.3, write docs/versions.md (an hour or more)
	PYTHONPATH=. nice $(BIN)/python docs/versions.py

test-oldest: $(READY) ## a part of it in some minutes: Spark 4.0, and what moves from it to the newest
	PYTHONPATH=. $(BIN)/python -m tests.versions.environments 4.0
	.work/versions/whole-4.0/bin/python -m pytest -q -n 3 --dist loadscope $(WITH_OLDEST)
	$(PYTEST) -q -m soak tests/versions tests/integration/test_readme.py

book: $(READY) ## the notebooks as a static book in .work/book
	$(BIN)/sphinx-build -q -W --keep-going -c docs . .work/book
	@echo "The book: .work/book/docs/index.html"

lock: ## pin every dependency anew from pyproject.toml (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --extra workbook --extra dev \
		--extra book \
		--no-annotate --no-header --no-emit-index-url pyproject.toml -o requirements.lock

wheelhouse: $(READY) ## fetch all packages into wheelhouse/, to install without a network
	$(BIN)/python -m pip wheel --quiet -r requirements.lock --wheel-dir wheelhouse

chromium: ## install Chromium for the browser test (Debian and Ubuntu, as root)
	command -v chromium >/dev/null || (apt-get -q update && apt-get -q -y install chromium)

rsyslog: ## install rsyslog with RELP for its tests (Debian and Ubuntu, as root)
	command -v rsyslogd >/dev/null && ls /usr/lib*/*/rsyslog/omrelp.so >/dev/null || \
		(apt-get -q update && apt-get -q -y install rsyslog rsyslog-relp rsyslog-gnutls)

clean: ## remove the environment and all local state
	rm -rf .venv .work .pytest_cache .ruff_cache .mypy_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): requirements.lock pyproject.toml Makefile
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else \
		"Python 3.11 or later is needed; name one with: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv .venv
	@# Three at a time: to unpack them is work for more than one core.
	awk 'NR % 3 == 0' requirements.lock | $(INSTALL) -r /dev/stdin & first=$$!; \
		awk 'NR % 3 == 1' requirements.lock | $(INSTALL) -r /dev/stdin & second=$$!; \
		awk 'NR % 3 == 2' requirements.lock | $(INSTALL) -r /dev/stdin && wait $$first && wait $$second
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable . --editable kit
	mkdir -p .venv/share/jupyter/lab/settings
	cp .jupyter/overrides.json .venv/share/jupyter/lab/settings/
	@# Modules are compiled on one core, while Spark's classes are prepared on the other.
	$(BIN)/python -m compileall -q -x '/(tests?|pip|setuptools)/' .venv/lib >/dev/null & $(BIN)/python -m tutorial_pkg prepare && wait
	touch $(READY)
