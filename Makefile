# `make tour` serves the demo tour; `make test` runs every check. Both set up .venv in the checkout by themselves.

.PHONY: tour test check soak live live-test narrator help
help:
	@echo "make tour    set up and serve the demo tour on loopback (ARGS='--late hold' passes options)"
	@echo "make test    set up (Chromium included), then check and test everything"
	@echo "make check   only ruff, mypy --strict and pyright"
	@echo "make soak    the long run: random tours, spoilt messages, cuts, outages, kills, 10,000 sessions, an hour's tour (40 min)"
	@echo "make live    set up what benchmarks are measured beside, each in a .venv-live of its own (6 GB)"
	@echo "make narrator  train the local narrator's adapter anew, in its place, and judge it (an hour to an hour and a half on two cores)"
	@echo "make live-test  what talks to a model's server, against transformers serve and vLLM of .venv-live (5 min)"

tour:
	@.ci/setup core
	@.venv/bin/multimodal tour $(ARGS)

test: check
	@echo "== pytest"
	@$(if $(ARGS),.venv/bin/python -m pytest $(ARGS),.ci/tests)

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
	@echo "== a million spoilt messages, 24,000 to live connections, 22,000 offers and requests"
	@MULTIMODAL_FUZZ=1000000 MULTIMODAL_FUZZ_LIVE=20000 MULTIMODAL_FUZZ_LINKS=4000 MULTIMODAL_FUZZ_HTTP=20000 \
		MULTIMODAL_FUZZ_SOCKETS=2000 .venv/bin/python -m pytest tests/fuzz $(ARGS)
	@echo "== a browser in every hostile network"
	@MULTIMODAL_NETWORKS=all .venv/bin/python -m pytest tests/netns $(ARGS)
	@echo "== cuts at every event, outages, kills, 10,000 sessions, an hour's tour"
	@MULTIMODAL_CUTS=120 MULTIMODAL_KILLS=9 MULTIMODAL_SESSIONS=10000 MULTIMODAL_HOUR=86 \
		.venv/bin/python -m pytest tests/soak $(ARGS)

live:
	@.ci/live pipecat
	@.ci/live serve
	@.ci/live vllm

live-test:
	@.ci/setup dev
	@.ci/live serve
	@.ci/live vllm
	@MULTIMODAL_LIVE=1 .venv/bin/python -m pytest tests/live $(ARGS)

narrator:
	@.ci/setup dev
	@echo "== training: 45 to 75 minutes on two cores"
	@.venv/bin/python -m multimodal.assets.narrator.training.train --out assets/narrator/adapter.safetensors
	@echo "== judging it on 100 unseen fact sheets: some minutes"
	@.venv/bin/multimodal bench narrator --json
