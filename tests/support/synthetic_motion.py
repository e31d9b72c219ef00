"""Synthetic movement: smooth, endless, reproducible, no file needed."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from training.data.examples import Example, Piece
from training.teacher.kinematic_targets import compute_targets

Move = Callable[..., NDArray[np.float64]]


def swinging(
    frames: int = 300, seed: int = 0, amount: float = 0.5, rate: float = 50.0
) -> NDArray[np.float64]:
    """(T, 22, 4): every joint swings about its own axis with three sinusoids of 0.3 to 1.5 Hz."""
    rng = np.random.default_rng(seed)
    t = np.arange(frames) / rate
    vector = np.zeros((frames, 22, 3))
    for _ in range(3):
        size = rng.normal(0.0, amount, (22, 3))
        hz = rng.uniform(0.3, 1.5, (22, 1))
        phase = rng.uniform(0.0, 2.0 * np.pi, (22, 1))
        vector += size * np.sin(2.0 * np.pi * hz * t[:, None, None] + phase)
    angle = np.linalg.norm(vector, axis=-1, keepdims=True)
    axis = vector / np.maximum(angle, 1e-12)
    return np.concatenate([np.cos(angle / 2.0), np.sin(angle / 2.0) * axis], axis=-1)


@pytest.fixture(scope="session")
def move() -> Move:
    """``move(frames, seed, amount)`` gives canonical rotations (T, 22, 4)."""
    return swinging


@pytest.fixture(scope="session")
def piece_of() -> Callable[..., Piece]:
    def make(frames: int = 300, seed: int = 0, subject: str = "01") -> Piece:
        root = np.zeros((frames, 3), dtype=np.float32)
        mask = np.ones(22, dtype=np.bool_)
        return Piece(f"m{seed}", subject, swinging(frames, seed).astype(np.float32), root, mask, 50.0)

    return make


@pytest.fixture(scope="session")
def example_of() -> Callable[..., Example]:
    """Examples whose features are rotations and their differences: enough to learn from."""

    def make(frames: int = 300, seed: int = 0, subject: str = "01") -> Example:
        quats = swinging(frames, seed).astype(np.float32)
        targets = compute_targets(quats)
        features = np.zeros((frames, 279), dtype=np.float32)
        features[:, :88] = quats.reshape(frames, -1)
        features[1:, 88:176] = np.diff(quats, axis=0).reshape(frames - 1, -1) * 50.0
        scalars = np.random.default_rng(seed).uniform(0.0, 1.0, (frames, 7))
        features[:, 220:227] = scalars
        onsets, phrases = targets.times("onset"), targets.times("phrase")
        return Example(f"m{seed}", subject, quats, features, targets.params, onsets, phrases)

    return make


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)
