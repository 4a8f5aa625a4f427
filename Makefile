# The common tasks. Each installs the tools that it needs, once; see scripts/with.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Cargo and npm use every core by themselves. Only the parts of `make test` run side by side: see
# BESIDE.
ifndef SIDE_BY_SIDE
.NOTPARALLEL:
endif
.PHONY: help run test test-binary test-lab test-page test-programs test-python test-rust test-tools \
	check check-rust check-scripts bench bench-trading lab publication-study fuzz soak attack aeron web docs clean

export PATH := $(PATH):$(HOME)/.cargo/bin
export PITWIRE_BIN ?= $(CURDIR)/target/release/pitwire
export CHROMIUM ?= $(shell command -v chromium || command -v chromium-browser || command -v google-chrome || echo /usr/bin/chromium)

# `make check` judges the subjects of later commits.
FIRST_CHECKED_COMMIT := a9158968ca27aef04da1d1d61730adafba67c323
WITH := scripts/with
# With the features of the whole workspace, as in `cargo test`: nothing is compiled for it twice.
XTASK := $(WITH) rust -- scripts/xtask
PYTEST := .venv/bin/pytest --rootdir tests -c tests/pytest.ini
LAB_PYTEST := lab/.venv/bin/pytest --rootdir lab -c lab/pyproject.toml
# The wheels of PyTorch there have no CUDA and are much smaller than those of PyPI.
TORCH_INDEX := PIP_EXTRA_INDEX_URL=$${PIP_EXTRA_INDEX_URL:-https://download.pytorch.org/whl/cpu}
PYTHON_SOURCES := tests scripts clients/python lab/src lab/tests lab/conform lab/connectors
RELEASE := $(WITH) rust node -- scripts/build-release
# Runs two targets at a time and prints the output of each when it ends.
BESIDE := $(MAKE) --no-print-directory --output-sync=target -j 2 SIDE_BY_SIDE=1
# What Bash's `time` prints.
export TIMEFORMAT := make: %0R s; CPU: %0U s, and %0S s in the kernel
PAGE_SOURCES := $(shell find web -path web/node_modules -prune -o -path web/dist -prune -o -path web/e2e -prune \
	-o -path web/tests -prune -o -type f -print 2>/dev/null)

help: ## list the verbs
	@echo "make <verb>"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

run: web/dist/index.html ## build quickly, start the demo venue, print its URLs (options: make run ARGS="--http 127.0.0.1:9000")
	$(WITH) rust node -- scripts/build-quick
	@[ -x "$(PITWIRE_BIN)" ] || { echo "make run: there is no $(PITWIRE_BIN); see what was skipped above"; exit 1; }
	exec "$(PITWIRE_BIN)" up --preset demo $(ARGS)

# The tests drive the binary that `cargo test` has built: its arithmetic is checked for overflow, and
# no second build is needed. For another one: make test PITWIRE_BIN=$PWD/target/release/pitwire
ifeq ($(origin PITWIRE_BIN),file)
test test-lab test-page test-python: export PITWIRE_BIN := $(CURDIR)/target/debug/pitwire
endif
test: web/dist/index.html ## everything that CI runs: checks, Rust, page, real clients, kill -9
	@rm -f target/skipped
	@# Install every tool now: two apt-get at the same time would fail.
	$(WITH) rust node python chromium strace openssl haproxy -- true
	ALLOW_MISSING=1 $(WITH) r tshark -- true
	$(WITH) rust -- cargo fmt --all --check
	@# Two at a time, in this order as far as the rules below allow.
	$(BESIDE) test-binary test-tools test-programs test-lab check-rust test-python test-page test-rust
	@[ ! -x target/docs-venv/bin/zensical ] || target/docs-venv/bin/python scripts/build_site.py
	@[ ! -s target/skipped ] || echo "ALLOW_MISSING: $$(wc -l < target/skipped) steps skipped, listed in target/skipped"

# What each part of `make test` needs. A part that computes runs beside a part that often waits.
# Clippy holds Cargo's lock, and one of the Python tests runs Cargo, so they begin after it.
ifdef SIDE_BY_SIDE
test-page: test-binary
test-programs test-lab: test-binary test-tools
check-rust test-rust: test-programs
test-python: check-rust
endif

# Without the examples: they are measuring programs, which clippy checks.
CARGO_TEST := cargo test --locked --workspace --tests

# The parts of `make test`. test-tools waits for downloads; test-lab, test-page, test-python and
# test-rust often wait for timers. test-binary, test-programs and check-rust only compute: with the
# lowest priority, the last two delay no test. The page has more patience than alone: 60 s instead of
# 20 s. The commands print their times.
test-binary:
	time $(WITH) rust -- cargo test --locked --workspace --no-run --test relay_chaos

test-tools: check-scripts lab/.venv/.stamp
	time lab/.venv/bin/lab build python-websockets php-stream go-gorilla || echo "make test: conformance goes on without these"
	time lab/.venv/bin/lab publication build go-gorilla javascript-ws java-websocket || echo "make test: publishers are tested without these"

test-programs:
	time $(WITH) rust -- nice -n 19 $(CARGO_TEST) --no-run
	time $(WITH) rust python -- nice -n 19 scripts/build-python

test-lab:
	time $(WITH) rust node python openssl -- $(LAB_PYTEST) -n auto --maxprocesses 4 --dist worksteal -m "not soak" lab/tests lab/conform

test-rust:
	time $(WITH) rust -- $(CARGO_TEST) --no-fail-fast
	time $(WITH) rust -- cargo test --locked --workspace --no-fail-fast --doc
	time $(WITH) rust -- nice -n 19 scripts/xtask mutants

test-page:
	time $(WITH) node -- npm --prefix web test
	time E2E_PATIENCE=60000 $(WITH) rust node chromium -- npm --prefix web run e2e

test-python:
	time $(WITH) rust node python strace openssl haproxy -- $(PYTEST) -n 4 --dist worksteal tests

check: check-rust check-scripts ## format, lint, dependencies, tidy; changes nothing

check-rust:
	$(WITH) rust -- cargo fmt --all --check
	time $(WITH) rust -- nice -n 19 cargo clippy --locked --workspace --all-targets -- -D warnings
	$(XTASK) dependencies
	$(XTASK) circles
	$(XTASK) tidy
	$(XTASK) tidy --commits $(FIRST_CHECKED_COMMIT)
	$(XTASK) mutants --check
	$(XTASK) table --check

check-scripts: web/node_modules/.stamp .venv/.stamp
	$(WITH) python -- .venv/bin/ruff format --config tests/ruff.toml --check -q $(PYTHON_SOURCES)
	$(WITH) python -- .venv/bin/ruff check --config tests/ruff.toml -q $(PYTHON_SOURCES)
	$(WITH) node -- npm --prefix web run check

bench: web/dist/index.html .venv/.stamp lab/.venv/.stamp ## figures of this machine: matching core, order to acknowledgement, recovery, idle, splitter, publication
	$(RELEASE)
	$(WITH) rust node python -- .venv/bin/python scripts/bench.py
	$(WITH) python -- .venv/bin/python scripts/bench_feed.py
	$(WITH) rust python -- lab/.venv/bin/python scripts/bench_publication.py

bench-trading: web/dist/index.html .venv/.stamp ## tables and plots, 6 minutes, written into docs/trading-bench.md and docs/figures (1 minute, printed only: make bench-trading QUICK=1)
	$(RELEASE)
	$(WITH) rust python haproxy -- .venv/bin/python scripts/bench_trading.py $(if $(QUICK),--quick)
	.venv/bin/python scripts/trading_figures.py $(if $(QUICK),--figures target/bench-trading,--page docs/trading-bench.md)

lab: web/dist/index.html lab/.venv/.stamp ## a short latency study of WebSocket clients, 15 minutes, in lab/results/short (another study: make lab STUDY=FILE; continue: RESUME=1)
	$(RELEASE)
	lab/.venv/bin/lab build --study $(or $(STUDY),lab/studies/short.toml) || echo "make lab: goes on without the connectors that were not built"
	lab/.venv/bin/lab run $(if $(RESUME),,--fresh) $(or $(STUDY),lab/studies/short.toml)
	lab/.venv/bin/lab report $(or $(STUDY),lab/studies/short.toml)

publication-study: web/dist/index.html lab/.venv/.stamp ## WebSocket publishers of many libraries under one load, 75 minutes, in lab/results/publication (another study: make publication-study STUDY=FILE; continue: RESUME=1)
	$(RELEASE)
	lab/.venv/bin/lab publication build || echo "make publication-study: goes on without the publishers that were not built"
	lab/.venv/bin/lab publication run $(if $(RESUME),,--fresh) $(or $(STUDY),lab/studies/publication.toml)
	lab/.venv/bin/lab publication report $(or $(STUDY),lab/studies/publication.toml)

fuzz: ## a million executions each at the JSON-RPC dialect, the journal reader, the cutter, WebSocket frames and handshakes, the order feed and its recovery, binary order entry, and captures (fewer: make fuzz RUNS=20000)
	$(WITH) rust -- fuzz/run $(or $(RUNS),1000000)

attack: web/dist/index.html .venv/.stamp ## the attacks of docs/security.md on the real binary, and a table: attack, tries, result
	$(RELEASE)
	ATTACK_FULL=1 $(WITH) rust node python strace -- $(PYTEST) -n 4 --dist worksteal -m attack tests

aeron: web/dist/index.html .venv/.stamp ## binary order entry over Aeron, IPC and UDP: builds the venue target/release/pitwire-aeron with all that it needs, and tests it
	$(WITH) rust python aeron -- scripts/build-aeron
	PITWIRE_AERON=1 PITWIRE_BIN=$(CURDIR)/target/release/pitwire-aeron $(WITH) rust node python aeron -- $(PYTEST) tests/test_sbe_aeron.py

soak: web/dist/index.html .venv/.stamp lab/.venv/.stamp ## kill -9 under load, the client behind 1,000 fault scripts, a billion trades split, an hour of greedy members in bounded memory, 100 million commands through both engines, twelve properties of markets over twenty seeds, a market maker that learns (make soak KILL_CYCLES=200)
	$(RELEASE)
	TEST_COMMANDS=$${TEST_COMMANDS:-100000000} $(WITH) rust -- cargo test --locked --release -p pitwire-engine --test differential -- --nocapture
	MUTATION_WORLDS=$${MUTATION_WORLDS:-2000} $(XTASK) mutants --release -- --nocapture
	$(WITH) rust -- cargo test --locked --release -p pitwire-simulation --test stylised_facts -- --ignored --nocapture
	$(WITH) rust python -- bash -c 'python3 -m venv target/learn-venv && $(TORCH_INDEX) target/learn-venv/bin/pip install -q \
		--disable-pip-version-check "./clients/python[learn]"'
	target/learn-venv/bin/python clients/python/examples/learned_market_maker.py --seconds 120
	KILL_CYCLES=$${KILL_CYCLES:-1000} $(WITH) rust node python -- $(PYTEST) -s tests/test_kill9.py -k kill
	CHAOS_SCRIPTS=$${CHAOS_SCRIPTS:-1000} $(WITH) rust -- cargo test --locked --release -p pitwire --test relay_chaos -- --nocapture
	MEMORY_SOAK_S=$${MEMORY_SOAK_S:-3600} $(WITH) rust node python -- $(PYTEST) -s --timeout=0 tests/attack/test_memory_soak.py
	SPLIT_TRADES=$${SPLIT_TRADES:-1000000000} $(WITH) rust node python -- $(PYTEST) --timeout=7200 tests/test_split.py -k million
	lab/.venv/bin/lab build reference-receiver rust-pitwire || echo "make soak: the known delays go on without these"
	$(WITH) rust node python openssl -- $(LAB_PYTEST) --timeout=7200 -m soak lab/tests

web: web/dist/index.html ## build the page into web/dist, which the release binary embeds

docs: target/docs-venv/.stamp ## build the documentation site into target/site, that of the crates into target/doc
	$(WITH) python -- target/docs-venv/bin/python scripts/build_site.py
	RUSTDOCFLAGS="-D warnings" $(WITH) rust -- cargo doc --locked --no-deps --workspace

clean: ## remove everything that was built or installed here (not pitwire-data)
	rm -rf target web/dist web/node_modules clients/typescript/dist clients/typescript/node_modules clients/java/target clients/java-sbe/target clients/cpp/build .venv lab/.venv lab/connectors/*/build lab/connectors/*/node_modules \
		lab/reference/build lab/publishers/*/build lab/publishers/*/node_modules lab/artillery/node_modules

web/node_modules/.stamp: web/package-lock.json
	$(WITH) node -- bash -c 'cd web && npm ci --no-audit --no-fund && touch node_modules/.stamp'

web/dist/index.html: web/node_modules/.stamp $(PAGE_SOURCES)
	$(WITH) node -- bash -c 'npm --prefix web run build && touch web/dist/index.html'

.venv/.stamp: tests/requirements.txt
	$(WITH) python -- bash -c 'python3 -m venv .venv && .venv/bin/pip install -q --disable-pip-version-check \
		-r tests/requirements.txt && touch .venv/.stamp'

target/docs-venv/.stamp: scripts/docs-requirements.txt
	$(WITH) python -- bash -c 'python3 -m venv target/docs-venv && target/docs-venv/bin/pip install -q \
		--disable-pip-version-check -r scripts/docs-requirements.txt && touch target/docs-venv/.stamp'

lab/.venv/.stamp: lab/pyproject.toml
	$(WITH) python -- bash -c 'python3 -m venv lab/.venv && lab/.venv/bin/pip install -q --disable-pip-version-check \
		-e "lab[test]" && touch lab/.venv/.stamp'
