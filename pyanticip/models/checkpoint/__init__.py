"""Checkpoints: safetensors and JSON."""
