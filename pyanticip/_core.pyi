"""The Rust core; hand-written and checked against the binary by stubtest."""

__version__: str
