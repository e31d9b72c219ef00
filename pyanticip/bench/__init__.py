"""What the library costs, measured: the scalars, the bridge to tensors, training."""
