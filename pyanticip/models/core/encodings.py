"""Position encodings (sinusoidal, rotary), and orthogonal polynomials to describe a path of a few steps."""

import math

import numpy as np
import torch
from torch import Tensor


def sinusoids(positions: Tensor, width: int, base: float = 10_000.0) -> Tensor:
    """Sinusoidal encodings (..., width) of real positions (...,) (Vaswani et al. 2017).

    Channel 2 i is ``sin(p / base^(2 i / width))``, channel 2 i + 1 its cosine.
    """
    return sine_pairs(positions, width, base)[..., :width]


def sine_pairs(positions: Tensor, width: int, base: float = 10_000.0) -> Tensor:
    """As :func:`sinusoids`, in float64; an odd width is rounded up, so that the last sine has its cosine."""
    angles = positions[..., None].double() * speeds(width, positions.device, base)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)


def speeds(width: int, device: torch.device | None = None, base: float = 10_000.0) -> Tensor:
    """Radians per position of each pair of channels, (ceil(width / 2),) float64."""
    pairs = torch.arange(0, width, 2, device=device, dtype=torch.float64)
    return torch.exp(pairs * (-math.log(base) / width))


def rotate(x: Tensor, positions: Tensor) -> Tensor:
    """Rotary encoding (Su et al. 2024): channel pairs (i, i + d/2) turn by ``position * 10000^(-2 i / d)``.

    Args:
        x: (..., d) queries or keys, d even.
        positions: real positions that broadcast to ``x``'s axes without the last one.
    """
    half = x.shape[-1] // 2
    index = torch.arange(half, device=x.device, dtype=torch.float64)
    angles = positions[..., None].double() * torch.exp(index * (-math.log(10_000.0) / half))
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)


def polynomials(frames: int, order: int, *, constant: bool = False) -> Tensor:
    """Orthonormal polynomials over ``frames`` points, of degree 1 (or 0) to ``order``.

    Returns (frames, order), or with the constant (order + 1, frames), a basis to expand in.
    """
    x = np.linspace(-1.0, 1.0, frames)
    q, r = np.linalg.qr(np.vander(x, order + 1, increasing=True))
    q = q * np.sign(np.diag(r))
    basis = torch.from_numpy(np.ascontiguousarray(q.T if constant else q[:, 1:]))
    return basis.to(torch.get_default_dtype())
