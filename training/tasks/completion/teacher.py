"""The teacher's parameters in torch, differentiable, for use in a loss.

The same steps and constants as in the core (``rust/anticip-motion/src/twin/measures.rs``, docs/teacher.md); a
test compares the two.
"""

from collections.abc import Sequence
from functools import cache
from typing import Final

import numpy as np
import torch
from torch.nn import functional

from pyanticip.vocabulary import RATE
from training.tasks.completion.net import JOINTS
from training.teacher.filters import gaussian_kernel
from training.teacher.kinematics import ENDS, FAST_HZ, MASSES, MOTION_HZ, SLOW_HZ

PERIODS: Final = tuple(range(16, 61, 4))
"""Periods in frames: every other of the teacher's, which is enough for a loss."""
HANDS: Final = (9, 13)
REACH: Final = (9, 13, 16, 20)
"""Hands and ankles."""
CHEST: Final = 3
PULSE: Final = (5, 8, 9, 12, 13, 16, 17, 20, 21)
"""Head, elbows, hands, ankles, toes."""
TINY: Final = 1e-6
"""Added under square roots, whose gradient at zero would be infinite."""


@cache
def _smoother(frames: int, cutoff_hz: float) -> torch.Tensor:
    """(L, L) Gaussian smoother, truncated and renormalised at both ends."""
    taps = gaussian_kernel(cutoff_hz)
    radius = len(taps) // 2
    offset = np.arange(frames)[None] - np.arange(frames)[:, None]
    rows = np.where(abs(offset) <= radius, taps[np.clip(offset + radius, 0, 2 * radius)], 0.0)
    return torch.from_numpy((rows / rows.sum(axis=1, keepdims=True)).astype(np.float32))


@cache
def _derivative(frames: int) -> torch.Tensor:
    """(L, L) central difference per second, one-sided at both ends."""
    matrix = torch.eye(frames)
    matrix[1:-1] = 0.5 * (torch.eye(frames)[2:] - torch.eye(frames)[:-2])
    matrix[0], matrix[-1] = torch.eye(frames)[[1, -1]] - torch.eye(frames)[[0, -2]]
    return RATE * matrix


@cache
def _velocity(frames: int) -> torch.Tensor:
    """(L, L) derivative after smoothing."""
    return _derivative(frames) @ _smoother(frames, MOTION_HZ)


def _root(x: torch.Tensor) -> torch.Tensor:
    return (x.clamp(min=0.0) + TINY).sqrt()


def _hill(x: torch.Tensor, half: float, power: float) -> torch.Tensor:
    ratio = (x / half).pow(power)
    return ratio / (1.0 + ratio)


def _periodicity(within: torch.Tensor, periods: Sequence[int]) -> torch.Tensor:
    """Periodicity (B, L) of velocities (B, L, C) in the hips' frame at their best period."""
    frames = within.shape[1]
    energy = 0.5 * within.pow(2).sum(-1)
    products, energies, weights = [], [], []
    for period in periods:
        product = (within[:, period:] * within[:, :-period]).sum(-1)
        # Centred: half a period before and after a frame.
        pad = (period // 2, period - period // 2)
        products.append(functional.pad(product, pad))
        energies.append(functional.pad(energy[:, period:] + energy[:, :-period], pad))
        weights.append(functional.pad(torch.ones_like(product[:1]), pad))
    slow = _smoother(frames, SLOW_HZ)
    product_mean, energy_mean, weight = (slow @ torch.stack(one, -1) for one in (products, energies, weights))
    periodicity = torch.where(weight > 0.25, product_mean / (energy_mean + 0.09 * weight + TINY), 0.0)
    return periodicity.amax(-1).clamp(min=0.0)


def parameters(places: torch.Tensor, hips: torch.Tensor, periods: Sequence[int] = PERIODS) -> torch.Tensor:
    """The eight parameters (B, L, 8) of windows.

    Args:
        places: (B, L, 22, 3) global positions relative to the hips, metres.
        hips: (B, L, 3, 3) global rotations of the hips.
        periods: even numbers of frames, the longest below L / 2.
    """
    frames = places.shape[1]
    body = places @ hips
    moving = torch.cat([places, body[:, :, PULSE]], 2).flatten(2)
    moved = _velocity(frames) @ moving
    velocity, within = moved[..., : 3 * JOINTS].view(places.shape), moved[..., 3 * JOINTS :]
    derivative = _derivative(frames)
    jerk = (derivative @ (derivative @ velocity[:, :, ENDS].flatten(2))).view(*places.shape[:2], -1, 3)
    speed2 = velocity.pow(2).sum(-1)
    ends = speed2[:, :, ENDS]
    blend = 0.15
    raw = [
        blend * (torch.logsumexp(places[:, :, HANDS, 1] / blend, -1) - np.log(2.0)),
        speed2 @ torch.as_tensor(MASSES, dtype=speed2.dtype),
        speed2[:, :, HANDS].amax(-1),
        jerk.pow(2).sum(-1).mean(-1),
        ends.mean(-1),
        _root((places[:, :, REACH] - places[:, :, [CHEST]]).pow(2).sum(-1)).mean(-1),
        (ends * body[:, :, ENDS, 0]).sum(-1),
        ends.sum(-1),
    ]
    fast = (_smoother(frames, FAST_HZ) @ torch.stack(raw, -1)).unbind(-1)
    height, kinetic, hand2, jerk2, end2, reach, moment, energy = fast
    limbs = _root(_smoother(frames, SLOW_HZ) @ ends)
    frequency = (_root(jerk2) / (_root(end2) + 0.1)).sqrt() / (2.0 * np.pi)
    participation = limbs.sum(-1).pow(2) / (limbs.pow(2).sum(-1) + 0.15**2)
    result = [
        torch.sigmoid((height - 0.12) / 0.18),
        _hill(_root(kinetic), 0.35, 1.5),
        _hill(_root(hand2), 0.8, 1.3),
        _hill(frequency, 1.8, 4.0),
        _hill(participation, 3.3, 4.0),
        torch.sigmoid((reach - 0.80) / 0.05),
        torch.sigmoid(-moment / (energy + 0.1) / 0.075),
        _periodicity(within, periods),
    ]
    return torch.stack(result, -1)
