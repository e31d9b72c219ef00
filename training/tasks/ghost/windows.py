"""Windows of whole bodies as the ghost's forecaster sees them: from where the performer stands and faces."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pyanticip.errors import OptionError
from pyanticip.vocabulary import RATE
from training.data.batches import shares
from training.data.examples import Piece
from training.teacher.kinematics import MIRROR, positions

STRIDE: Final = 2
"""Frames of the 50 Hz grid between two that are looked at: the monitor is told every other one."""
OBSERVED: Final = 10
TARGET: Final = 10
LENGTH: Final = OBSERVED + TARGET
HIPS: Final = 0
LEGS: Final = slice(14, 22)
WARP: Final = 1.25
"""Most that a drawn window is faster or slower."""
NEEDED: Final = WARP * STRIDE * LENGTH
"""Frames that a clip has to have, for the fastest."""
SWAPPED: Final = 0.25
"""How often trunk and arms are somebody else's."""
SLID: Final = 0.3
"""How often the feet slide: suits guess where the hips go, or leave them in place."""
SLIDING: Final = 0.03
"""Metres that the hips then go astray between two frames that are looked at (standard deviation)."""


def whole(piece: Piece) -> tuple[Tensor, Tensor]:
    """Positions (T, 22, 3) of a clip's joints in the world, metres, and its headings (T,), radians."""
    quats = np.asarray(piece.quats, np.float64)
    places = positions(quats, upright=True) + np.asarray(piece.root, np.float64)[:, None]
    yaw = np.unwrap(2.0 * np.arctan2(quats[:, HIPS, 2], quats[:, HIPS, 0]))
    return torch.from_numpy(places.astype(np.float32)), torch.from_numpy(yaw.astype(np.float32))


def seen_from_now(places: Tensor, yaw: Tensor) -> Tensor:
    """Windows (B, L, 22, 3) seen from the floor below the hips of the last frame observed, turned by its
    heading (B,) so that +z is ahead."""
    here = places[:, OBSERVED - 1 : OBSERVED, HIPS : HIPS + 1] * torch.tensor([1.0, 0.0, 1.0])
    cos, sin = torch.cos(yaw)[:, None, None], torch.sin(yaw)[:, None, None]
    x, y, z = (places - here).unbind(-1)
    return torch.stack((cos * x - sin * z, y, sin * x + cos * z), -1)


def every(piece: Piece) -> Tensor:
    """All windows (N, 20, 22, 3) of a clip that begin at an even frame; none of one that is too short."""
    places, yaw = whole(piece)
    first = torch.arange(0, max(len(places) - STRIDE * (LENGTH - 1), 0), STRIDE)
    at = first[:, None] + STRIDE * torch.arange(LENGTH)
    return seen_from_now(places[at], yaw[at[:, OBSERVED - 1]])


class Windows:
    """Clips to draw windows from, varied as they are drawn: in speed, mirrored, half of them another's.

    Args:
        pieces: the clips.
        people: whose each is; everybody counts by the root of their frames.
        seed: of every draw.

    Raises:
        OptionError: no clip is long enough.
    """

    def __init__(self, pieces: Sequence[Piece], people: Sequence[str], seed: int) -> None:
        long = [n for n, piece in enumerate(pieces) if len(piece.quats) > NEEDED]
        if not long:
            raise OptionError(
                f"none of the {len(pieces)} clips to learn from is longer than {NEEDED:g} frames "
                f"({NEEDED / RATE:g} s); record longer takes"
            )
        found = [whole(pieces[n]) for n in long]
        self._places = torch.cat([places for places, _ in found])
        self._yaw = torch.cat([yaw for _, yaw in found])
        self._frames = np.array([len(yaw) for _, yaw in found])
        self._starts = np.concatenate(([0], np.cumsum(self._frames)[:-1]))
        self._share = shares(self._frames.tolist(), [people[n] for n in long])
        self._draw = np.random.default_rng(seed)

    def batch(self, size: int) -> Tensor:
        """Draw windows (``size``, 20, 22, 3)."""
        draw = self._draw
        clip = draw.choice(len(self._frames), size, p=self._share)
        pace = STRIDE * WARP ** draw.uniform(-1.0, 1.0, size)
        first = self._starts[clip] + draw.random(size) * (self._frames[clip] - 1.001 - (LENGTH - 1) * pace)
        at: NDArray[np.float64] = first[:, None] + pace[:, None] * np.arange(LENGTH)
        low = torch.from_numpy(at.astype(np.int64))
        part = torch.from_numpy((at - np.floor(at)).astype(np.float32))
        places = torch.lerp(self._places[low], self._places[low + 1], part[..., None, None])
        now, share = low[:, OBSERVED - 1], part[:, OBSERVED - 1]
        windows = seen_from_now(places, torch.lerp(self._yaw[now], self._yaw[now + 1], share))
        chosen = torch.from_numpy(draw.random(size) < 0.5)[:, None, None, None]
        windows = torch.where(chosen, mirrored(windows), windows)
        windows = windows + self._slide(windows)
        other = windows[torch.from_numpy(draw.permutation(size))]
        hips = windows[:, :, HIPS : HIPS + 1]
        other = other - other[:, :, HIPS : HIPS + 1] + hips
        other[:, :, LEGS] = windows[:, :, LEGS]
        chosen = torch.from_numpy(draw.random(size) < SWAPPED)[:, None, None, None]
        return torch.where(chosen, other, windows)

    def _slide(self, windows: Tensor) -> Tensor:
        """How far joints of windows are carried off (B, 20, 1, 3): at a steady pace, or back to a place."""
        draw, size = self._draw, len(windows)
        pace = SLIDING * draw.standard_normal((size, 1, 1, 3)) * (1.0, 0.0, 1.0)
        off = (
            torch.from_numpy(pace.astype(np.float32)) * torch.arange(1 - OBSERVED, 1 + TARGET)[:, None, None]
        )
        stays = -windows[:, :, HIPS : HIPS + 1] * torch.tensor([1.0, 0.0, 1.0])
        how = torch.from_numpy(draw.random(size))[:, None, None, None]
        return torch.where(how < SLID / 3.0, stays, torch.where(how < SLID, off, torch.zeros_like(off)))


def mirrored(windows: Tensor) -> Tensor:
    """The mirror image of windows (..., 22, 3): sides exchanged, x negated."""
    return windows[..., list(MIRROR), :] * torch.tensor([-1.0, 1.0, 1.0])
