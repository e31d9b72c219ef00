"""Checkpoints: safetensors, JSON and the graphs of the live path."""
