# `make tour` serves the demo tour; `make test` runs every check. Both set up .venv in the checkout by themselves.

.PHONY: tour test check soak live help
help:
	@echo "make tour    set up and serve the demo tour on loopback (ARGS='--late hold' passes options)"
	@echo "make test    set up (Chromium included), then check and test everything"
	@echo "make check   only ruff, mypy --strict and pyright"
	@echo "make soak    the long run: 20,000 random tours, and 20,000 random alignments"
	@echo "make live    set up what benchmarks are measured beside, each in a .venv-live of its own (6 GB)"

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

soak:
	@.ci/setup dev
	@MULTIMODAL_TOURS=20000 .venv/bin/python -m pytest tests/sync/test_strategies.py -k every_rule $(ARGS)
	@MULTIMODAL_ALIGNMENTS=20000 .venv/bin/python -m pytest tests/sync/test_aligner_machine.py -k "order" $(ARGS)

live:
	@.ci/live pipecat
	@.ci/live serve
	@.ci/live vllm
