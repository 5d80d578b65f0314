# One door to everything. `make help` lists the targets; the work itself is in noxfile.py and scripts/.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.NOTPARALLEL:
# Tools want a home directory, if only for caches; an account without one gets it inside .venv.
export HOME := $(or $(wildcard $(HOME)),$(CURDIR)/.venv/home)

CONFIG ?= application.yaml
ARGS ?=
NOX := .venv/bin/nox --session

.PHONY: help setup run test quick fmt lint type unit wire system bench docs docs-check lock changelog clean
.PHONY: mutants campaign
.PHONY: sbom audit pipeline wheel deb chart dashboard
.PHONY: cluster-jars cluster-up cluster-down cluster-test spark-jars spark-test sim fuzz abuse powercut

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Make .venv with everything in it; does nothing when nothing changed
	@scripts/setup.sh

run: ## Serve with application.yaml (CONFIG=..., ARGS='--set KEY=VALUE')
	@scripts/setup.sh run
	@exec .venv/bin/iot-mqtt serve --config "$(CONFIG)" $(ARGS)

test: ## Run every check and every test
	@scripts/setup.sh venv
	@# What tests need from outside Python is brought meanwhile, and compiled what the checks do not need.
	@scripts/setup.sh tests & bringing=$$!; scripts/setup.sh install || exit; scripts/setup.sh compile & compiling=$$!; \
	    $(NOX) lint type docs site; checked=$$?; wait $$compiling && wait $$bringing && exit $$checked
	@$(NOX) test -- $(ARGS)

quick: ## Checks and most unit tests; no Maven, no npm, nothing compiled
	@scripts/setup.sh quick
	@$(NOX) quick -- $(ARGS) & testing=$$!; $(NOX) lint type; checked=$$?; wait $$testing && exit $$checked

fmt: setup ## Format the code and mend what ruff can mend
	@$(NOX) fmt

lint: setup ## ruff, import rules, spelling, change fragments, known faults of parts
	@$(NOX) lint

type: setup ## mypy --strict
	@$(NOX) type

unit: setup ## Unit, property and contract tests (ARGS='-k name')
	@scripts/setup.sh jars
	@$(NOX) unit -- $(ARGS)

fuzz: setup ## Search for bytes that do harm, guided by coverage (MINUTES=30 in all)
	@scripts/setup.sh tests
	@.venv/bin/python -m tests.fuzz --minutes $(or $(MINUTES),30) $(ARGS)

abuse: setup ## 8,000 connections at all ports at once, half of them silent (ARGS='--no-ignite')
	@scripts/setup.sh tests
	@scripts/setup.sh jars
	@.venv/bin/python -m tests.abuse $(ARGS)

mutants: ## Put faults into the core; tests must find each (ARGS='session --sample 10 --jobs 4')
	@scripts/setup.sh quick
	@.venv/bin/python -m tests.mutants $(ARGS)

campaign: setup ## Everything at its full size, for hours; writes docs/campaign.md (ARGS='--share 0.01')
	@scripts/setup.sh tests
	@.venv/bin/python -m tests.campaign $(ARGS)

sim: setup ## Whole brokers in a simulated cluster (SEEDS=1000, ARGS=--shrink)
	@scripts/setup.sh tests
	@.venv/bin/python -m tests.simulation --seeds $(or $(SEEDS),1000) $(ARGS)

powercut: setup ## Power cuts of a real broker (POINTS=5000, of which 100 with a whole broker)
	@.venv/bin/python -m tests.powercut --points $(or $(POINTS),5000) $(ARGS)

wire: setup ## Wire cases, at our broker or at ARGS='--broker HOST:PORT'
	@scripts/setup.sh tests
	@$(NOX) wire -- $(ARGS)

system: setup ## Tests against real broker processes
	@scripts/setup.sh tests
	@$(NOX) system -- $(ARGS)

pipeline: ## Bring Spark, which `iot-mqtt pipeline` needs (and Java 17)
	@scripts/setup.sh pipeline

cluster-jars: ## Make the jars that a cluster's servers are started from (Java 17, Maven)
	@scripts/setup.sh run
	@scripts/setup.sh jars

cluster-up: cluster-jars ## Start Ignite, ZooKeeper and Kafka on this machine (ARGS='--nodes 1 --no-kafka')
	@.venv/bin/iot-mqtt cluster up $(ARGS)

cluster-down: ## Stop them (ARGS=--purge removes their data)
	@scripts/setup.sh run
	@.venv/bin/iot-mqtt cluster down $(ARGS)

cluster-test: setup cluster-jars ## Tests against real Ignite, ZooKeeper and Kafka
	@$(NOX) cluster -- $(ARGS)

spark-jars: ## Make the jars that Spark reads and writes Kafka with (Java 17, Maven)
	@scripts/setup.sh spark

spark-test: setup spark-jars cluster-jars ## Tests of the pipeline's jobs, with a real Spark
	@$(NOX) spark -- $(ARGS)

bench: setup ## The project's own benchmarks (ARGS selects one)
	@scripts/setup.sh tests
	@$(NOX) bench -- $(ARGS)

docs: setup ## Build the documentation as a site into build/site; a broken link is an error
	@$(NOX) site

docs-check: setup ## Links and command names in the documentation, conformance matrix
	@$(NOX) docs

sbom: setup ## List the parts of a release in build/sbom, as CycloneDX (needs Maven)
	@.venv/bin/python scripts/parts.py sbom build/sbom

audit: sbom ## Ask OSV.dev what is known of these parts (needs the internet)
	@.venv/bin/python scripts/parts.py audit build/sbom

wheel: ## Make dist/*.whl for this Python (PYTHON=python3.12 for another); the same source gives the same file
	@IOT_MQTT_NATIVE=off IOT_MQTT_WEB=off scripts/setup.sh run
	@scripts/setup.sh web
	@scripts/wheel.sh

dashboard: ## Build the dashboard, which the admin port serves (Node.js 20.19 or newer, npm)
	@scripts/setup.sh web

chart: ## Lint the chart and write what it makes of its defaults (needs helm; `scripts/setup.sh tests` brings one)
	@scripts/chart.py

deb: ## Make dist/*.deb of the wheel, on the Debian that it is for (after `PYTHON=/usr/bin/python3 make wheel`)
	@scripts/deb.sh

lock: setup ## Resolve requirements/*.lock again (ARGS=--upgrade)
	@$(NOX) lock -- $(ARGS)

changelog: setup ## Move the change fragments into CHANGELOG.md (ARGS=VERSION)
	@.venv/bin/python scripts/changes.py assemble $(ARGS)

clean: ## Remove what make and the tools have made, .venv included; data and tokens stay
	rm -rf .venv build web/node_modules iot_mqtt/admin/static cluster/target cluster/*/target spark/target *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .nox .import_linter_cache
	find iot_mqtt -name '*.so' -delete -o -path '*/native/*.c' -delete -o -name compiled.digests -delete
	find . -name __pycache__ -type d -prune -not -path './.git/*' -exec rm -rf {} +
