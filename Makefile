# make demo   creates .venv with the base install and plays a bundled dance
# make train  adds the packages for training
# make test   adds those and the development tools, then runs every check and test, Rust and Python
# They work in any order on a fresh clone, and need Python >= 3.11, a C compiler and a Rust toolchain.

PYTHON ?= python3
# Pinned for a reproducible set-up; any version allowed by pyproject.toml works.
TORCH ?= torch==2.13.0

# The installer; `make demo PIP="uv pip"` uses uv, which is faster.
PIP ?= $(BIN)/python -m pip

# pytest-xdist options; `make test WORKERS=` runs the Python tests in a single process.
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
demo: $(VENV)/.made ## set up, then play the bundled dance
	$(MAKE) --no-print-directory --jobs=2 $(VENV)/.built $(VENV)/.base
	$(BIN)/pyanticip demo

# First in parallel: cargo, which runs its own jobs (hence MAKEFLAGS= there), and single-core work. Then the Python
# suite alone, since some tests play live.
.PHONY: test
test: $(VENV)/.made ## set up everything, then lint, type-check and test
	$(MAKE) --jobs=2 target/wheel/.unpacked check-python
	$(MAKE) --jobs=2 $(VENV)/.dev test-rust collect check-rust
	$(MAKE) test-python

.PHONY: train
train: $(VENV)/.train $(VENV)/.built ## set up training

$(VENV)/.made:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "pyanticip needs Python 3.11 or later")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

# Compiles the core and installs the package as editable, so that `import pyanticip` works inside the clone; repeated
# when Rust sources change. Without dependencies, which are installed while it compiles; cargo runs its own jobs.
$(VENV)/.built: $(VENV)/.made pyproject.toml $(RUST)
	MAKEFLAGS= $(PIP) install --quiet --no-deps --editable .
	@touch $@

# torch first: packages that depend on it must find the one that was chosen.
$(VENV)/.torch: | $(VENV)/.made
	$(PIP) install --quiet $(TORCH)
	@touch $@

# The dependencies of the package and of the extras given as arguments, read from pyproject.toml: the package itself
# may still be compiling.
NEEDED := import sys, tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
          print(*p["dependencies"], *(d for e in sys.argv[1:] for d in p["optional-dependencies"][e]), sep="\n")
$(VENV)/.base: pyproject.toml | $(VENV)/.made
	$(BIN)/python -c '$(NEEDED)' > $(VENV)/base.txt
	$(PIP) install --quiet --requirement $(VENV)/base.txt
	@touch $@

$(VENV)/.train: pyproject.toml $(VENV)/.torch
	$(BIN)/python -c '$(NEEDED)' train > $(VENV)/needed.txt
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

# LINTED= selects the crates to lint; .ci/run lints the others while they compile.
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

# CARGO_PROFILE= adds options of cargo, MATURIN_PEP517_ARGS= of maturin; .ci/run compiles shared crates once with them.
.PHONY: test-rust
test-rust: ## the pure crates: unit, property and documentation tests
	MAKEFLAGS= cargo test $(CARGO_PROFILE) --quiet

# Byte-compiles, in parallel with the checks, what every process of the suite imports; the suite reports any errors.
.PHONY: collect
collect: target/wheel/.unpacked $(VENV)/.dev
	-@$(SUITE) --assert=plain --collect-only --quiet > /dev/null

# Assertions are rewritten (and explained) only in the second run, of failed tests: it takes half of the collection.
.PHONY: test-python
test-python: target/wheel/.unpacked $(VENV)/.dev ## the Python suite, against the built wheel
	$(SUITE) $(WORKERS) --assert=plain $(PYTEST) || { [ $$? -eq 1 ] && \
	  echo "running failed tests again, alone: tests that play live depend on a clock that a busy machine disturbs" && \
	  $(SUITE) --last-failed --last-failed-no-failures none $(PYTEST); }

# The suite runs against the unpacked wheel, as users get it, not against the source tree.
target/wheel/.unpacked: $(SOURCES) | $(VENV)/.made
	rm -rf target/wheel target/wheels
	$(PIP) install --quiet "maturin>=1.9,<2"
	$(BIN)/maturin build --quiet --release $(MATURIN_PEP517_ARGS) --out target/wheels
	$(BIN)/python -m zipfile --extract target/wheels/*.whl target/wheel
	@touch $@

.PHONY: mutants
mutants: $(VENV)/.dev ## mutation testing: do the tests detect deliberate mistakes? ONLY=regex, JOBS=n
	PYTHONPATH=tests $(BIN)/python -P -m mutants.run --only "$(ONLY)" --jobs $(or $(JOBS),1)

.PHONY: wheel
wheel: $(VENV)/.made ## build dist/*.whl for this platform; WHEEL= adds options of maturin (docs/install.md)
	$(PIP) install --quiet "maturin[zig]>=1.9,<2"
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/maturin build --release --out dist $(WHEEL)

.PHONY: docs
docs: $(VENV)/.dev ## build the documentation as a site in target/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --config-file .ci/mkdocs.yml

.PHONY: bench
bench: $(VENV)/.dev ## criterion and pytest-benchmark, then one table that compares the live path with alternatives
	cargo bench -p anticip-benches
	$(BIN)/python -m pytest --benchmark-only tests
	$(BIN)/python -P tests/benches/beside.py

# Edge coverage on a stable compiler; naming a target keeps these flags away from build scripts.
COUNTED := -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 --cfg fuzzing -Cdebug-assertions \
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
MINUTES ?= 10
.PHONY: fuzz
fuzz: ## fuzz the parsers of datagrams and recordings one after the other with libFuzzer, MINUTES=10 in total
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
