"""Benchmarks of the live path for `pyanticip bench`; the docs explain the figures."""
