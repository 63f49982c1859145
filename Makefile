# `make tour` serves the demo tour; `make test` runs every check. Both set up .venv in the checkout by themselves.

.PHONY: tour test check live help
help:
	@echo "make tour    set up and serve the demo tour on loopback (ARGS='--late hold' passes options)"
	@echo "make test    set up (Chromium included), then check and test everything"
	@echo "make check   only ruff, mypy --strict and pyright"
	@echo "make live    set up what benchmarks are measured beside, each in a .venv-live of its own (0.5 GB)"

tour:
	@.ci/setup core
	@.venv/bin/multimodal tour $(ARGS)

test: check
	@echo "== pytest"
	@.venv/bin/python -m pytest $(ARGS)

check:
	@.ci/setup dev
	@echo "== ruff"
	@.venv/bin/ruff check --quiet .
	@.venv/bin/ruff format --check --quiet .
	@echo "== mypy --strict"
	@.venv/bin/mypy
	@echo "== pyright"
	@.venv/bin/pyright

PYTHON ?= python3
live:
	@echo "== pipecat into .venv-live/pipecat"
	@test -x .venv-live/pipecat/bin/python || $(PYTHON) -m venv .venv-live/pipecat
	@.venv-live/pipecat/bin/python -m pip install --quiet --disable-pip-version-check pipecat-ai==1.14.0
