"""The two metrics of the benchmark, exactly as published, and the predictors without training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from training.tasks.forecast.cmu import (
    COPIED,
    FIXED,
    HORIZONS,
    OBSERVED,
    TARGET,
    Array,
    Take,
    all_windows,
    rotations,
    sampled_windows,
)

PositionPredictor = Callable[[Array], Array]
"""Maps observed positions (N, 10, 38, 3) to predictions (N, 25, 38, 3)."""

ANGLE_OBSERVED: Final = 50
"""Observed frames of a window of the angle metric."""


def error_curve(take: Take, predict: PositionPredictor) -> Array:
    """Mean position error (25,) of one take at every target frame, in the tables' "mm".

    Mean over all 38 joints and over all windows. Joints that coincide with others are copied
    from those; joints that cannot move get their true positions."""
    positions = take.joint_positions
    windows = positions[all_windows(len(positions))[:, None] + np.arange(OBSERVED + TARGET)]
    truth = windows[:, OBSERVED:]
    guess = predict(windows[:, :OBSERVED])
    if guess.shape != truth.shape:
        raise ValueError(f"expected predictions {truth.shape}, got {guess.shape}")
    guess = completed(guess, truth)
    error: Array = np.linalg.norm(guess - truth, axis=-1).mean((0, 2))
    return error


def completed(guess: Array, truth: Array) -> Array:
    """Fill in the joints that a model does not predict."""
    guess = guess.copy()
    for joint, source in COPIED.items():
        guess[..., joint, :] = guess[..., source, :]
    guess[..., FIXED, :] = truth[..., FIXED, :]
    return guess


def hold(observed: Array) -> Array:
    """Zero velocity: repeat the last observed frame, of positions or rotations."""
    return np.repeat(observed[:, -1:], TARGET, 1)


def extrapolate(observed: Array) -> Array:
    """Constant velocity: extrapolate positions from the last two frames."""
    step = observed[:, -1:] - observed[:, -2:-1]
    ahead = np.arange(1, TARGET + 1)[None, :, None, None]
    result: Array = observed[:, -1:] + ahead * step
    return result


MapPredictor = Callable[[Array], Array]
"""Maps observed exponential maps (N, 50, 38, 3) to predictions (N, 25, 38, 3)."""


def angle_error(take: Take, predict: MapPredictor) -> Array:
    """Angle error (6,) of one take over the 8 sampled windows, radians summed over joints.

    Euler angles are compared without wrapping; all joints but the root count.
    """
    starts = sampled_windows(len(take.rows))
    if not len(starts):
        return np.full(len(HORIZONS), np.nan)
    windows = take.maps[starts[:, None] + np.arange(ANGLE_OBSERVED + TARGET)]
    truth, guess = windows[:, ANGLE_OBSERVED:], predict(windows[:, :ANGLE_OBSERVED])
    difference = euler(guess) - euler(truth)
    difference[..., 0, :] = 0.0
    error = np.sqrt(np.square(difference).sum((-1, -2))).mean(0)
    at_horizons: Array = error[list(HORIZONS)]
    return at_horizons


def euler(maps: Array) -> Array:
    """Euler angles (..., 3) of exponential maps (..., 3), in the benchmark's own convention."""
    m = rotations(maps)
    m00, m01, m02 = m[..., 0, 0], m[..., 0, 1], m[..., 0, 2]
    m12, m22 = m[..., 1, 2], m[..., 2, 2]
    second = -np.arcsin(np.clip(m02, -1.0, 1.0))
    cos = np.cos(second)
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.arctan2(m12 / cos, m22 / cos)
        third = np.arctan2(m01 / cos, m00 / cos)
    locked = np.abs(m02) == 1.0
    first = np.where(locked, np.arctan2(m01, m02), first)
    second = np.where(locked, np.where(m02 == -1.0, np.pi / 2, -np.pi / 2), second)
    third = np.where(locked, 0.0, third)
    return np.stack((first, second, third), -1)


def extrapolate_maps(observed: Array) -> Array:
    """Constant velocity: every joint repeats its last rotation between two frames."""
    last, previous = rotations(observed[:, -1]), rotations(observed[:, -2])
    turn = np.swapaxes(previous, -1, -2) @ last
    out, now = [], last
    for _ in range(TARGET):
        now = now @ turn
        out.append(logarithm(now))
    return np.stack(out, 1)


def logarithm(matrices: Array) -> Array:
    """Exponential maps (..., 3) of rotation matrices (..., 3, 3) for row vectors; angles in [0, pi]."""
    from scipy.spatial.transform import Rotation

    flat = matrices.reshape(-1, 3, 3)
    maps: Array = Rotation.from_matrix(flat).as_rotvec()
    return maps.reshape(*matrices.shape[:-2], 3)
