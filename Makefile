# make demo   sets up .venv with what playing needs, plays a bundled dance
# make train  adds what training needs
# make test   adds that and the tools, then every check and test, Rust and Python
# In any order, on a fresh clone; they need Python >= 3.11, a C compiler and a Rust toolchain.

PYTHON ?= python3
# What pip is told to install; pinned for a reproducible set-up. Anything that satisfies pyproject.toml will do.
TORCH ?= torch==2.13.0

# What installs: `make demo PIP="uv pip"` with uv, which is quicker.
PIP ?= $(BIN)/python -m pip

# Processes that the Python tests run in; `make test WORKERS=` for a single one.
WORKERS ?= -n auto --dist loadgroup --no-loadscope-reorder

VENV := .venv
BIN := $(VENV)/bin
SUITE := PYTHONPATH=$(CURDIR)/target/wheel $(BIN)/python -P -m pytest --import-mode=importlib
RUST := Cargo.toml Cargo.lock $(shell find rust -name '*.rs' -not -path '*/target/*') $(wildcard rust/*/Cargo.toml)
SOURCES := pyproject.toml README.md THIRD_PARTY $(RUST) \
           $(shell find pyanticip realtime training -type f -not -name '*.pyc' -not -name '*.so' -not -name '.core.tmp')

.PHONY: help
help: ## show this list
	@awk -F ':[^#]*## ' '/^[a-z-]+:.*## / { printf "%-12s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(VENV)/.installed ## set up, then play the bundled dance
	$(BIN)/pyanticip demo

# Side by side first, cargo (with jobs of its own: MAKEFLAGS= there) and what needs one core: the bindings compile for
# minutes on one as well, and types are checked beside them. Then what plays live, and nothing beside it.
.PHONY: test
test: $(VENV)/.made ## set up everything, then lint, type-check and test it
	$(MAKE) --jobs=2 target/wheel/.unpacked check-python
	$(MAKE) --jobs=2 $(VENV)/.dev test-rust collect check-rust
	$(MAKE) test-python

.PHONY: train
train: $(VENV)/.train $(VENV)/.built ## set up what training needs

$(VENV)/.made:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "pyanticip needs Python 3.11 or later")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

# The core compiled, and an editable install: `import pyanticip` works inside the clone. Rebuilt when Rust sources
# change. Without what it needs, which pip cannot install beside something else.
$(VENV)/.built: $(VENV)/.made pyproject.toml $(RUST)
	$(PIP) install --quiet --no-deps --editable .
	@touch $@

$(VENV)/.installed: $(VENV)/.built
	$(PIP) install --quiet pyanticip
	@touch $@

# torch first: packages that depend on it must find the one that was chosen.
$(VENV)/.torch: | $(VENV)/.made
	$(PIP) install --quiet $(TORCH)
	@touch $@

# What `pyanticip[train]` needs, read from where it stands: the package itself may be compiling still.
NEEDED := import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
          print(*p["dependencies"], *p["optional-dependencies"]["train"], sep="\n")
$(VENV)/.train: pyproject.toml $(VENV)/.torch
	$(BIN)/python -c '$(NEEDED)' > $(VENV)/needed.txt
	$(PIP) install --quiet --requirement $(VENV)/needed.txt
	@touch $@

$(VENV)/.tools: pyproject.toml $(VENV)/.train
	$(PIP) install --quiet "pip>=25.1"
	$(PIP) install --quiet --group dev
	@touch $@

$(VENV)/.dev: $(VENV)/.tools $(VENV)/.built
	@touch $@

.PHONY: check
check: check-rust check-python ## formatting, lints and types

# LINTED= is what is linted here; .ci/run has the rest linted as it is compiled.
LINTED ?= --workspace

.PHONY: check-rust
check-rust:
	cargo fmt --all --check
	MAKEFLAGS= cargo clippy $(CARGO_PROFILE) $(LINTED) --all-targets --quiet -- -D warnings

.PHONY: check-python
check-python: lint types types-darwin types-win32

.PHONY: lint
lint: $(VENV)/.tools
	$(BIN)/ruff check .
	$(BIN)/ruff check --preview --select PLW1514 pyanticip realtime training
	$(BIN)/ruff format --check .

.PHONY: types
types: $(VENV)/.tools
	$(BIN)/mypy
	$(BIN)/mypy examples

.PHONY: types-darwin types-win32
types-darwin types-win32: types-%: $(VENV)/.tools
	$(BIN)/mypy --config-file .ci/elsewhere.ini -p realtime --platform $* --python-version 3.13

# CARGO_PROFILE= takes options of cargo, MATURIN_PEP517_ARGS= of maturin: .ci/run compiles once what both need.
.PHONY: test-rust
test-rust: ## the pure crates: unit, property and documentation tests
	MAKEFLAGS= cargo test $(CARGO_PROFILE) --quiet

# What every process of the suite imports is byte-compiled once, beside the checks; what is wrong there, the suite says.
.PHONY: collect
collect: target/wheel/.unpacked $(VENV)/.dev
	-@$(SUITE) --assert=plain --collect-only --quiet > /dev/null

# Assertions are explained where something failed: rewriting all of them takes half of the collection.
.PHONY: test-python
test-python: target/wheel/.unpacked $(VENV)/.dev ## the Python suite, against the built wheel
	$(SUITE) $(WORKERS) --assert=plain $(PYTEST) || { [ $$? -eq 1 ] && \
	  echo "once more what failed, alone: tests that play live wait for a clock that a busy machine disturbs" && \
	  $(SUITE) --last-failed --last-failed-no-failures none $(PYTEST); }

# The suite runs against what users get: the wheel, unpacked, not the source tree.
target/wheel/.unpacked: $(SOURCES) | $(VENV)/.made
	rm -rf target/wheel target/wheels
	$(PIP) install --quiet "maturin>=1.9,<2"
	$(BIN)/maturin build --quiet --release $(MATURIN_PEP517_ARGS) --out target/wheels
	$(BIN)/python -m zipfile --extract target/wheels/*.whl target/wheel
	@touch $@

.PHONY: mutants
mutants: $(VENV)/.dev ## would the tests notice? mistakes, one at a time; ONLY=regex
	PYTHONPATH=tests $(BIN)/python -P -m mutants.run --only "$(ONLY)" --jobs $(or $(JOBS),1)

.PHONY: wheel
wheel: $(VENV)/.made ## build dist/*.whl for this platform; WHEEL= takes options of maturin (docs/install.md)
	$(PIP) install --quiet "maturin[zig]>=1.9,<2"
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/maturin build --release --out dist $(WHEEL)

.PHONY: docs
docs: $(VENV)/.dev ## the documentation as a site, in target/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --config-file .ci/mkdocs.yml

.PHONY: bench
bench: $(VENV)/.dev ## criterion and pytest-benchmark; then the live path beside its rivals, in one table
	cargo bench -p anticip-benches
	$(BIN)/python -m pytest --benchmark-only tests
	$(BIN)/python -P tests/benches/beside.py

# What makes a stable compiler count edges; a target that is named keeps it away from build scripts.
COUNTED := -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 --cfg fuzzing -Cdebug-assertions \
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
MINUTES ?= 10
.PHONY: fuzz
fuzz: ## the parsers of datagrams and recordings in turns, with libFuzzer: MINUTES=10 of all together
	cd rust/anticip-wire/fuzz && host=$$(rustc -vV | sed -n 's/^host: //p') && \
	RUSTFLAGS="$(COUNTED)" cargo build --quiet --release --target $$host --target-dir target && \
	for name in $$(ls seeds); do echo "$$name" && mkdir -p corpus/$$name artifacts/$$name && \
	  FUZZ=$$name target/$$host/release/parser -max_total_time=$$(($(MINUTES) * 60 / $$(ls seeds | wc -l))) \
	  -max_len=8192 -artifact_prefix=artifacts/$$name/ corpus/$$name seeds/$$name || exit 1; done

.PHONY: core
core: ## rebuild only the extension module, into the source tree
	cargo build --release -p anticip-python
	@for lib in target/release/lib_core.so target/release/lib_core.dylib; do \
	  if [ -f $$lib ]; then cp $$lib pyanticip/.core.tmp && mv pyanticip/.core.tmp pyanticip/_core.abi3.so; fi; done

.PHONY: clean
clean: ## remove everything that was built
	rm -rf $(VENV) target pyanticip/_core*.so
