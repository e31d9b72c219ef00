"""Trains the ghost's forecaster on windows of bodies, in the frame of the performer's place and heading."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pyanticip.errors import OptionError
from pyanticip.models.forecast.forecaster import PoseForecaster
from pyanticip.models.forecast.manifest import ForecastConfig
from pyanticip.vocabulary import RATE
from training.data.batches import sampling_weights
from training.data.examples import Piece
from training.report.tables import ProgressCallback
from training.run.averaged import train_averaged
from training.teacher.kinematics import MIRROR, positions

STRIDE: Final = 2
"""Every second frame of the 50 Hz grid is used, as the monitor receives every second one."""
OBSERVED: Final = 10
TARGET: Final = 10
LENGTH: Final = OBSERVED + TARGET
HIPS: Final = 0
LEGS: Final = slice(14, 22)
WARP: Final = 1.25
"""Maximum factor of speed of a drawn window, up or down."""
MIN_FRAMES: Final = WARP * STRIDE * LENGTH
"""Minimum length of a clip, for the fastest window."""
SWAP_SHARE: Final = 0.25
"""Share of windows with another window's trunk and arms."""
SLIDE_SHARE: Final = 0.3
"""Share of windows with sliding feet, as suits guess the position of the hips or leave them in place."""
SLIDE_STEP: Final = 0.03
"""Standard deviation of the hips' error per used frame in these windows, metres."""
BATCH: Final = 256
STILL: Final = 0.03
"""Added to the movement that the loss of a window is divided by, metres: limits the weight of still ones."""
CONFIG: Final = ForecastConfig(
    joints=len(MIRROR), observed=OBSERVED, target=TARGET, blocks=2, components=6, mirror=MIRROR
)


def world_positions(piece: Piece) -> tuple[Tensor, Tensor]:
    """Global joint positions (T, 22, 3) of a clip, metres, and its headings (T,), radians."""
    quats = np.asarray(piece.quats, np.float64)
    places = positions(quats, upright=True) + np.asarray(piece.root, np.float64)[:, None]
    yaw = np.unwrap(2.0 * np.arctan2(quats[:, HIPS, 2], quats[:, HIPS, 0]))
    return torch.from_numpy(places.astype(np.float32)), torch.from_numpy(yaw.astype(np.float32))


def to_performer_frame(places: Tensor, yaw: Tensor) -> Tensor:
    """Transform windows (B, L, 22, 3) so that the origin is on the floor below the hips of the last observed
    frame, and +z is its heading (B,)."""
    origin = places[:, OBSERVED - 1 : OBSERVED, HIPS : HIPS + 1] * torch.tensor([1.0, 0.0, 1.0])
    cos, sin = torch.cos(yaw)[:, None, None], torch.sin(yaw)[:, None, None]
    x, y, z = (places - origin).unbind(-1)
    return torch.stack((cos * x - sin * z, y, sin * x + cos * z), -1)


def all_windows(piece: Piece) -> Tensor:
    """All windows (N, 20, 22, 3) of a clip that begin at an even frame; empty if it is too short."""
    places, yaw = world_positions(piece)
    first = torch.arange(0, max(len(places) - STRIDE * (LENGTH - 1), 0), STRIDE)
    at = first[:, None] + STRIDE * torch.arange(LENGTH)
    return to_performer_frame(places[at], yaw[at[:, OBSERVED - 1]])


class Windows:
    """Draws windows from clips, augmented in speed, mirrored, with sliding feet and another's upper body.

    Args:
        pieces: the clips.
        people: person of each clip; a person's weight is the square root of their frames.
        seed: seed of the draws.

    Raises:
        OptionError: no clip is long enough.
    """

    def __init__(self, pieces: Sequence[Piece], people: Sequence[str], seed: int) -> None:
        long = [n for n, piece in enumerate(pieces) if len(piece.quats) > MIN_FRAMES]
        if not long:
            raise OptionError(
                f"none of the {len(pieces)} clips to learn from is longer than {MIN_FRAMES:g} frames "
                f"({MIN_FRAMES / RATE:g} s); record longer takes"
            )
        motions = [world_positions(pieces[n]) for n in long]
        self._places = torch.cat([places for places, _ in motions])
        self._yaw = torch.cat([yaw for _, yaw in motions])
        self._frames = np.array([len(yaw) for _, yaw in motions])
        self._starts = np.concatenate(([0], np.cumsum(self._frames)[:-1]))
        self._share = sampling_weights(self._frames.tolist(), [people[n] for n in long])
        self._draw = np.random.default_rng(seed)

    def batch(self, size: int) -> Tensor:
        """Draw windows (``size``, 20, 22, 3)."""
        draw = self._draw
        clip = draw.choice(len(self._frames), size, p=self._share)
        speed = STRIDE * WARP ** draw.uniform(-1.0, 1.0, size)
        first = self._starts[clip] + draw.random(size) * (self._frames[clip] - 1.001 - (LENGTH - 1) * speed)
        frames: NDArray[np.float64] = first[:, None] + speed[:, None] * np.arange(LENGTH)
        low = torch.from_numpy(frames.astype(np.int64))
        weight = torch.from_numpy((frames - np.floor(frames)).astype(np.float32))
        places = torch.lerp(self._places[low], self._places[low + 1], weight[..., None, None])
        now, now_weight = low[:, OBSERVED - 1], weight[:, OBSERVED - 1]
        windows = to_performer_frame(places, torch.lerp(self._yaw[now], self._yaw[now + 1], now_weight))
        chosen = torch.from_numpy(draw.random(size) < 0.5)[:, None, None, None]
        windows = torch.where(chosen, mirrored(windows), windows)
        windows = windows + self._slide(windows)
        other = windows[torch.from_numpy(draw.permutation(size))]
        hips = windows[:, :, HIPS : HIPS + 1]
        other = other - other[:, :, HIPS : HIPS + 1] + hips
        other[:, :, LEGS] = windows[:, :, LEGS]
        chosen = torch.from_numpy(draw.random(size) < SWAP_SHARE)[:, None, None, None]
        return torch.where(chosen, other, windows)

    def _slide(self, windows: Tensor) -> Tensor:
        """Error of the hips' position (B, 20, 1, 3): a constant velocity, or the hips held in place."""
        draw, size = self._draw, len(windows)
        step = SLIDE_STEP * draw.standard_normal((size, 1, 1, 3)) * (1.0, 0.0, 1.0)
        drift = (
            torch.from_numpy(step.astype(np.float32)) * torch.arange(1 - OBSERVED, 1 + TARGET)[:, None, None]
        )
        hold_in_place = -windows[:, :, HIPS : HIPS + 1] * torch.tensor([1.0, 0.0, 1.0])
        choice = torch.from_numpy(draw.random(size))[:, None, None, None]
        return torch.where(
            choice < SLIDE_SHARE / 3.0,
            hold_in_place,
            torch.where(choice < SLIDE_SHARE, drift, torch.zeros_like(drift)),
        )


def mirrored(windows: Tensor) -> Tensor:
    """Mirror windows (..., 22, 3): sides exchanged, x negated."""
    return windows[..., list(MIRROR), :] * torch.tensor([-1.0, 1.0, 1.0])


def fit(
    pieces: Sequence[Piece],
    people: Sequence[str],
    *,
    steps: int,
    seed: int = 0,
    say: ProgressCallback = lambda what, done, of: None,
) -> PoseForecaster:
    """Train on canonical clips at 50 Hz.

    Args:
        pieces: the clips.
        people: person of each clip; a person's weight is the square root of their frames.
        steps: number of updates.
        seed: seed of all random choices.
        say: progress callback.

    Raises:
        OptionError: the loss is not finite.
    """
    torch.manual_seed(seed)
    windows = Windows(pieces, people, seed)
    model = PoseForecaster(CONFIG)
    model.fit_normalisation(torch.cat([windows.batch(512) for _ in range(8)]), 1.0)
    level = _displacement(torch.cat([windows.batch(512) for _ in range(4)])).mean(0)
    train_averaged(
        model,
        lambda: _loss(model, windows.batch(BATCH), level),
        steps,
        lambda done: say("ghost", done, steps),
    )
    return model


def _displacement(windows: Tensor) -> Tensor:
    """Mean distance (B, 10) of the joints from their last observed positions, metres."""
    moved: Tensor = (windows[:, OBSERVED:] - windows[:, OBSERVED - 1 : OBSERVED]).norm(dim=-1).mean(-1)
    return moved


def _loss(model: PoseForecaster, windows: Tensor, level: Tensor) -> Tensor:
    """Mean joint error, relative to the mean displacement at each frame and to that of each window.

    Otherwise windows of walking people would dominate.
    """
    guess = model.one_view(windows[:, :OBSERVED])
    # The square root is smoothed below 3 mm, where its slope would jump.
    distance = ((guess - windows[:, OBSERVED:]).square().sum(-1) + 1e-5).sqrt().mean(-1)
    movement = _displacement(windows).mean(1, keepdim=True) + STILL
    return (distance / level * movement.mean() / movement).mean()
