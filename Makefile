# make demo: set up .venv, build, play a bundled performance.   make test: the same set-up, then every test.
PYTHON ?= python3
TORCH ?= torch==2.13.0
VENV := .venv
BIN := $(VENV)/bin

.PHONY: core
core: ## rebuild only the extension module, into the source tree
	cargo build --release -p anticip-python
	@for lib in target/release/lib_core.so target/release/lib_core.dylib; do \
	  [ -f $$lib ] && cp $$lib pyanticip/.core.tmp && mv pyanticip/.core.tmp pyanticip/_core.abi3.so || true; done
