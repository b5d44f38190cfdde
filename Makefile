# What people run every day. `make help` lists it; CONTRIBUTING.md has the rest.

PYTHON ?= python3
LAB_OPTIONS ?=
BIN := .venv/bin
READY := .venv/ready
UV := uv==0.13.9
OURS := --no-deps --no-build-isolation --editable . --editable kit
# A sign of life every nine seconds, until the line of the recipe that begins with it has ended.
BEAT := t=0; while sleep 9; do t=$$((t + 9)); echo "    $$t s ..."; done & trap "kill $$!" EXIT;
# A folder made by `make wheelhouse` replaces the package index: nothing is downloaded then.
OFFLINE := $(if $(wildcard wheelhouse),--no-index --find-links wheelhouse)
# Four at a time, a file or a class each: half of a Spark test is waiting. The longest come first.
PYTEST := $(BIN)/python -m pytest -n 4 --dist loadscope --no-loadscope-reorder
NBVAL := --nbval --nbval-cell-timeout=600 --nbval-sanitize-with tests/nbval_sanitize.cfg

# Where this is set, as in many containers, each of Spark's processes would compile the package.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help lab test more check style soak book bench lock wheelhouse clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' Makefile

lab: $(READY) ## open the workbook in JupyterLab
	@$(BIN)/python -m tutorial_pkg doctor --quick || true
	@echo "Opening JupyterLab. Ctrl-C here ends it; your answers stay in the notebooks."
	@$(BIN)/jupyter lab --ip=127.0.0.1 --custom-css --ServerApp.root_dir="$(CURDIR)" \
		$(if $(filter 0,$(shell id -u)),--allow-root) $(LAB_OPTIONS) notebooks/00_start_here.ipynb

test: style ## style, types, notebooks 00 to 12, one proof of every promise that needs no server
	$(PYTEST) $(NBVAL) notebooks/0*.ipynb notebooks/1[0-2]*.ipynb tests/integration tests/faults tests/unit

more: $(READY) ## the other notebooks; what needs a server, a cluster or a browser
	$(PYTEST) $(NBVAL) tests/cluster tests/browser tests/services notebooks/1[3-9]*.ipynb notebooks/2*.ipynb

check: style ## the quick tests: style, types, unit, one real stream (under two minutes)
	$(PYTEST) -q tests/unit
	$(BIN)/python -m tutorial_pkg doctor

style: $(READY) ## the code's style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

soak: $(READY) ## the rest: many kills, fuzzers, all subjects of the kit (hours; PART=3/15 is a part)
	$(PYTEST) -m soak $(if $(PART),--part $(PART)) tests

book: $(READY) ## the notebooks and docs/ as a static book in .work/book
	$(BIN)/sphinx-build -q -W --keep-going -c docs . .work/book
	@echo "The book: .work/book/docs/index.html"

bench: $(READY) ## measure the connectors next to Spark's own, write benchmarks/RESULTS.md
	$(BIN)/python benchmarks/run.py

lock: $(READY) ## pin every dependency again, from pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --extra workbook --extra dev \
		--extra book --no-annotate --no-header --no-emit-index-url pyproject.toml -o requirements.lock

wheelhouse: $(READY) ## download all packages into wheelhouse/, to install without a network
	$(BIN)/python -m pip wheel --quiet -r requirements.lock --wheel-dir wheelhouse

clean: ## remove the environment and all local state
	rm -rf .venv .work .pytest_cache .ruff_cache .mypy_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): requirements.lock pyproject.toml kit/pyproject.toml Makefile
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else \
		"Python 3.11 or later is needed; name one with: make PYTHON=python3.12 ...")'
	@echo "1/4 A Python environment in .venv (5 s)"
	@$(PYTHON) -m venv .venv
	@echo "2/4 PySpark, JupyterLab and what the lessons use, 1.5 GB (30 s to some minutes)"
	@$(BEAT) if $(BIN)/python -m pip install --quiet $(OFFLINE) $(UV) 2>/dev/null; \
		then $(BIN)/uv pip install --python $(BIN)/python $(OFFLINE) --no-deps -r requirements.lock 2>&1 \
			| grep -v '^ [+~-]'; $(BIN)/uv pip install --quiet --python $(BIN)/python $(OURS); \
		else echo "    uv cannot be installed here; pip takes three times as long"; \
			$(BIN)/python -m pip install --no-compile $(OFFLINE) --no-deps -r requirements.lock \
			| grep -v 'already satisfied'; $(BIN)/python -m pip install --quiet $(OURS); fi
	@$(BIN)/python -c 'import jupyterlab, pyspark, tutorial_pkg, spark_connector_tests'
	@echo "3/4 JupyterLab's settings"
	@mkdir -p .venv/share/jupyter/lab/settings
	@cp .jupyter/overrides.json .venv/share/jupyter/lab/settings/
	@static=$$($(BIN)/python -c 'from jupyter_server import DEFAULT_STATIC_FILES_PATH as p; print(p)') \
		&& mkdir -p $$static/custom && cp .jupyter/custom.css $$static/custom/
	@echo "4/4 Java, and Spark's classes in an archive for a faster start (20 s)"
	@# Notebooks are trusted and modules compiled on one core, Spark's classes prepared on the other.
	@$(BEAT) { $(BIN)/jupyter trust notebooks/*.ipynb && \
		$(BIN)/python -m compileall -q -x '/(tests?|pip|setuptools)/' .venv/lib; } >/dev/null & \
		compiling=$$!; $(BIN)/python -m tutorial_pkg prepare && wait $$compiling
	@touch $(READY)
