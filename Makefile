# The commands of the project. `make demo` and `make test` set up all they need in .venv.
PYTHON ?= python3
PY := .venv/bin/python
PIP := $(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt
EXTRA :=

.PHONY: help demo test check fmt lint types rooms unit cover lab slow chaos golden parity codecs clean

help: ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Argosy needs Python 3.11 or newer; set PYTHON=python3.x")'
	$(PYTHON) -m venv .venv

.venv/train.stamp: .venv/bin/python pyproject.toml constraints.txt
	@echo "Installing Argosy and its training engine into .venv (some minutes the first time)"
	$(PIP) torch -e '.[train,tensorboard]'
	@touch $@

.venv/dev.stamp: .venv/train.stamp
	$(PIP) torch -e '.[train,tensorboard,dev]'
	@touch $@

demo: .venv/train.stamp ## train one model at three emulated sites; ends with a report
	$(PY) -m argosy train examples/three-continents/job.yaml --lab --yes $(EXTRA)

test: .venv/dev.stamp check ## set up, then every check of the project but the slow suites

check: fmt lint types rooms unit cover

fmt:
	$(PY) -m ruff format --check .

lint:
	$(PY) -m ruff check .

types:
	$(PY) -m mypy

rooms:
	.venv/bin/lint-imports --no-logo

unit:
	$(PY) -m coverage erase
	$(PY) -m coverage run -m pytest -n 2 $(EXTRA)

cover:
	$(PY) -m coverage combine --quiet
	$(PY) -m coverage report --skip-covered --include='src/argosy/core/*,src/argosy/policy/*,src/argosy/planner/*,src/argosy/exchange/*,src/argosy/catalog/*,src/argosy/run/state.py,src/argosy/run/react.py,src/argosy/run/reconcile.py,src/argosy/run/vitals.py' --fail-under=100
	$(PY) -m coverage report --format=total --fail-under=75

lab: .venv/dev.stamp ## real processes on this machine, pulled plugs (minutes)
	$(PY) -m pytest -m "lab and not slow" -p no:randomly --timeout=600 $(EXTRA)

slow: .venv/dev.stamp ## thousands of schedules, twenty killed controllers (half an hour)
	$(PY) -m pytest -m slow -p no:randomly --timeout=3600 $(EXTRA)

golden: .venv/dev.stamp ## rewrite the golden vectors after a deliberate change
	ARGOSY_REWRITE_GOLDEN=1 $(PY) -m pytest tests/exchange tests/planner -q -p no:randomly

parity: .venv/dev.stamp ## loss and bytes against synchronous training (a quarter of an hour)
	$(PY) benchmarks/parity.py $(EXTRA)

codecs: .venv/dev.stamp ## speed and size of the codecs
	$(PY) benchmarks/codecs.py $(EXTRA)

clean: ## forget caches; runs/ stay
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage .coverage.*
