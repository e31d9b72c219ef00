"""The teacher's parameters as a loss: what ``training.teacher`` says, in torch, so that it has a gradient.

The same steps and constants as the core's (``rust/anticip-motion/src/twin/measures.rs``, docs/teacher.md);
a test holds the two together.
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
"""Frames: every other of the periods that the teacher looks at, which is enough for a loss."""
HANDS: Final = (9, 13)
REACH: Final = (9, 13, 16, 20)
"""Hands and ankles."""
CHEST: Final = 3
PULSE: Final = (5, 8, 9, 12, 13, 16, 17, 20, 21)
"""Head, elbows, hands, ankles, toes."""
TINY: Final = 1e-6
"""Under a root: its gradient at nothing would be infinite."""


@cache
def _smoother(frames: int, cutoff_hz: float) -> torch.Tensor:
    """(L, L) the Gaussian smoother, cut and renormalised at both ends."""
    taps = gaussian_kernel(cutoff_hz)
    radius = len(taps) // 2
    apart = np.arange(frames)[None] - np.arange(frames)[:, None]
    rows = np.where(abs(apart) <= radius, taps[np.clip(apart + radius, 0, 2 * radius)], 0.0)
    return torch.from_numpy((rows / rows.sum(axis=1, keepdims=True)).astype(np.float32))


@cache
def _derivative(frames: int) -> torch.Tensor:
    """(L, L) the central difference per second, one-sided at both ends."""
    found = torch.eye(frames)
    found[1:-1] = 0.5 * (torch.eye(frames)[2:] - torch.eye(frames)[:-2])
    found[0], found[-1] = torch.eye(frames)[[1, -1]] - torch.eye(frames)[[0, -2]]
    return RATE * found


@cache
def _velocity(frames: int) -> torch.Tensor:
    """(L, L) the difference of what is smoothed."""
    return _derivative(frames) @ _smoother(frames, MOTION_HZ)


def _root(x: torch.Tensor) -> torch.Tensor:
    return (x.clamp(min=0.0) + TINY).sqrt()


def _hill(x: torch.Tensor, half: float, power: float) -> torch.Tensor:
    ratio = (x / half).pow(power)
    return ratio / (1.0 + ratio)


def _periodicity(within: torch.Tensor, periods: Sequence[int]) -> torch.Tensor:
    """(B, L) how well velocities (B, L, C) in the hips' frame repeat at their best period."""
    frames = within.shape[1]
    energy = 0.5 * within.pow(2).sum(-1)
    products, energies, weights = [], [], []
    for period in periods:
        product = (within[:, period:] * within[:, :-period]).sum(-1)
        # What lies around a frame is half a period before and after it.
        pad = (period // 2, period - period // 2)
        products.append(functional.pad(product, pad))
        energies.append(functional.pad(energy[:, period:] + energy[:, :-period], pad))
        weights.append(functional.pad(torch.ones_like(product[:1]), pad))
    slow = _smoother(frames, SLOW_HZ)
    said, given, weight = (slow @ torch.stack(one, -1) for one in (products, energies, weights))
    found = torch.where(weight > 0.25, said / (given + 0.09 * weight + TINY), 0.0)
    return found.amax(-1).clamp(min=0.0)


def parameters(places: torch.Tensor, hips: torch.Tensor, periods: Sequence[int] = PERIODS) -> torch.Tensor:
    """The eight parameters (B, L, 8) of windows.

    Args:
        places: (B, L, 22, 3) metres from the hips, in the world.
        hips: (B, L, 3, 3) rotations of the hips in the world.
        periods: even numbers of frames, the longest below half of L.
    """
    frames = places.shape[1]
    body = places @ hips
    moving = torch.cat([places, body[:, :, PULSE]], 2).flatten(2)
    moved = _velocity(frames) @ moving
    velocity, within = moved[..., : 3 * JOINTS].view(places.shape), moved[..., 3 * JOINTS :]
    ahead = _derivative(frames)
    jerk = (ahead @ (ahead @ velocity[:, :, ENDS].flatten(2))).view(*places.shape[:2], -1, 3)
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
    trembling = (_root(jerk2) / (_root(end2) + 0.1)).sqrt() / (2.0 * np.pi)
    taking_part = limbs.sum(-1).pow(2) / (limbs.pow(2).sum(-1) + 0.15**2)
    said = [
        torch.sigmoid((height - 0.12) / 0.18),
        _hill(_root(kinetic), 0.35, 1.5),
        _hill(_root(hand2), 0.8, 1.3),
        _hill(trembling, 1.8, 4.0),
        _hill(taking_part, 3.3, 4.0),
        torch.sigmoid((reach - 0.80) / 0.05),
        torch.sigmoid(-moment / (energy + 0.1) / 0.075),
        _periodicity(within, periods),
    ]
    return torch.stack(said, -1)
