# make up              everything, at http://127.0.0.1:8000; the first time it also installs
# make up MLX=cuda     the same on an NVIDIA GPU (MLX=cuda12 for a driver older than 580)
# make test            all tests; installs Chromium where there is none (JOBS=n: so many at once, 2 otherwise)
# make test-postgres   the Django tests and one flow on a private PostgreSQL
# make bench           all measured comparisons (BENCH=name: one; WRITE=1: into docs/benchmarks.md)
# make lint            ruff, formatting, types
# make doctor          what this machine has and what it lacks
#
# Settings come from the environment: PORT, HEARTH_DATA_DIR, HEARTH_BIND ... (docs/running.md).
# Works with the make of macOS (3.81).

PYTHON := .venv/bin/python
MLX ?=
BENCH ?= all
WRITE ?=
JOBS ?= 2
PYTEST := $(PYTHON) -m pytest
# Each of these processes has a Redis, a database and a data folder of its own
AT_ONCE = -n $(JOBS) --dist loadfile --no-loadscope-reorder
# For models in the tests' own processes; one thread, as the processes share the machine
OPENBLAS = env LD_PRELOAD="$$($(PYTHON) hosting/supervisor/openblas.py)" OPENBLAS_NUM_THREADS=1
# What asks no database is tested once, with the others
WITHOUT_DATABASE = $(addprefix --ignore-glob=tests/hosting/test_,settings.py supervisor_*.py engine_client*.py damaged_database.py private_redis.py)
KEY := $(shell cat requirements.txt .ci/install | cksum | cut -d' ' -f1)
# Without MLX= the back end that was chosen last is kept
KEPT := $(wildcard .venv/installed-$(KEY)-*)
INSTALLED := $(if $(MLX)$(if $(KEPT),,x),.venv/installed-$(KEY)-$(MLX),$(firstword $(KEPT)))

.PHONY: up test test-postgres bench lint doctor install

up: $(INSTALLED)
	@exec $(PYTHON) manage.py up

test: $(INSTALLED)
	@.ci/install chromium
	@.ci/install openblas
	@.ci/install clients
	$(OPENBLAS) $(PYTEST) $(AT_ONCE) tests --ignore=tests/flow --ignore=tests/clients --ignore=tests/browser
	$(PYTEST) $(AT_ONCE) tests/flow tests/clients
	$(PYTEST) tests/browser

test-postgres: $(INSTALLED)
	@.ci/install openblas
	@.ci/install postgres
	.ci/with-postgres $(PYTEST) $(AT_ONCE) $(WITHOUT_DATABASE) tests/accounts tests/hosting tests/flow/test_answers.py

bench: $(INSTALLED)
	@.ci/install openblas
	$(PYTHON) -m tests.bench $(BENCH) $(if $(WRITE),--write docs/benchmarks.md)

lint: $(INSTALLED)
	$(PYTHON) -m ruff check
	$(PYTHON) -m ruff format --check
	$(PYTHON) -m mypy

doctor: $(INSTALLED)
	@$(PYTHON) manage.py doctor

install: $(INSTALLED)

$(INSTALLED):
	@.ci/install python $(MLX)
	@touch $@
