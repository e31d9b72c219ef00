"""Trains the ghost's forecaster on windows of whole bodies."""

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from pyanticip.models.forecast.forecaster import PoseForecaster
from pyanticip.models.forecast.manifest import ForecastConfig
from training.data.examples import Piece
from training.report.tables import ProgressCallback
from training.run.averaged import train_averaged
from training.tasks.ghost.windows import OBSERVED, TARGET, Windows
from training.teacher.kinematics import MIRROR

BATCH: Final = 256
STILL: Final = 0.03
"""Added to the movement that the loss of a window is divided by, metres: limits the weight of still ones."""
CONFIG: Final = ForecastConfig(
    joints=len(MIRROR), observed=OBSERVED, target=TARGET, blocks=2, components=6, mirror=MIRROR
)


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
