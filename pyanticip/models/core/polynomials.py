"""Orthogonal polynomials over a few frames: what sums up a path in them."""

import numpy as np
import torch
from torch import Tensor


def polynomials(frames: int, order: int, *, constant: bool = False) -> Tensor:
    """Orthonormal polynomials over ``frames`` points, by degree from 1 (or 0).

    Returns (frames, order), or with the constant (order + 1, frames): a basis to expand in.
    """
    x = np.linspace(-1.0, 1.0, frames)
    q, r = np.linalg.qr(np.vander(x, order + 1, increasing=True))
    q = (q * np.sign(np.diag(r))).astype(np.float32)
    return torch.from_numpy(np.ascontiguousarray(q.T if constant else q[:, 1:]))
