# Six commands, from a fresh clone, with git, make and Python 3.11 or newer:
#   make demo   sets up a virtual environment in .venv and runs the main job on real data
#   make check  sets up the same environment for development and checks lint, layers, types and the core's units: a minute
#   make test   checks lint, layers and types, and runs the fast tests: some five minutes on two cores
#   make forecasters  tests the adapters for statsforecast and sktime in an environment of their own, .venv-forecasters
#   make all    runs every test: also whole streams, processes that are killed, the papers' tables; and builds the site
#   make docs   builds the site of docs/ into build/site; it loads nothing from a network, nor does the build
# Another interpreter: make test PYTHON=/path/to/python3

VENV := .venv
BIN := $(VENV)/bin
RECENT := import sys; sys.exit(sys.version_info < (3, 11))

# The first interpreter that runs and is new enough (a name on the path may be an empty shim).
PYTHON ?= $(shell for p in python3.11 python3 python3.12 python3.13; do \
	$$p -c '$(RECENT)' 2>/dev/null && echo $$p && break; done)

.PHONY: demo lint check test slow forecasters all docs clean
.NOTPARALLEL:

# What Python has compiled is kept: the two workers, both suites and the processes that tests start read it.
unexport PYTHONDONTWRITEBYTECODE

demo: $(VENV)/.installed-demo
	$(BIN)/streamgp demo

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache --no-logo

check: lint
	$(call beside_types,$(BIN)/pytest $(TWO) $(addprefix tests/unit/,numerics bases filters stream table evaluation/metrics))

test: lint
	$(call beside_types,$(BIN)/pytest $(TWO))

slow: $(VENV)/.installed-test
	$(BIN)/pytest $(TWO) -m 'slow or process or papers'

# statsforecast needs an older pandas than the other tests.
forecasters:
	$(MAKE) VENV=.venv-forecasters .venv-forecasters/.installed-forecasters
	.venv-forecasters/bin/pytest -m '' tests/unit/adapters

all: test docs slow

docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Two workers, a file at a time to each.
TWO := -n 2 --dist loadfile --no-loadscope-reorder

# A command while pyright, which uses one core, checks the types.
beside_types = $(BIN)/pyright --pythonpath $(BIN)/python & types=$$!; $(1); tests=$$?; wait $$types && exit $$tests

clean:
	rm -rf $(VENV) .venv-forecasters

# Installed in place, so that an edit of Python under src/ needs no new installation; one of the kernel in C does.
$(VENV)/.installed-demo: EXTRAS := demo
$(VENV)/.installed-docs: EXTRAS := docs
$(VENV)/.installed-test: EXTRAS := dev,demo
$(VENV)/.installed-forecasters: EXTRAS := dev,statsforecast,sktime
$(VENV)/.installed-%: $(VENV)/.created pyproject.toml hatch_build.py $(wildcard src/streamgp/numerics/kernel/*.[ch])
	@echo 'Installing streamgp[$(EXTRAS)] into $(VENV): a minute or two, the first time'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS)]'
	@touch $@

$(VENV)/.created:
	@test -n '$(PYTHON)' || { echo 'streamgp needs Python 3.11 or newer, and none was found: install it, or name it with make PYTHON=/path/to/python3' >&2; exit 1; }
	@$(PYTHON) -c '$(RECENT)' || { echo 'streamgp needs Python 3.11 or newer, and $(PYTHON) is older or missing: name another with make PYTHON=/path/to/python3' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@
