"""Benchmarks of the library: the scalars, the bridge to tensors, training."""
