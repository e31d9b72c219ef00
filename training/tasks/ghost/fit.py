"""Train the ghost's forecaster: windows of whole bodies, their first half observed."""

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from pyanticip.models.forecast.forecaster import PoseForecaster
from pyanticip.models.forecast.manifest import ForecastConfig
from training.data.examples import Piece
from training.report.tables import Say
from training.run.averaged import train_averaged
from training.tasks.ghost.windows import OBSERVED, TARGET, Windows
from training.teacher.kinematics import MIRROR

BATCH: Final = 256
STILL: Final = 0.03
"""Metres that who stands still counts as having moved: otherwise only those who walk were learned from."""
CONFIG: Final = ForecastConfig(
    joints=len(MIRROR), observed=OBSERVED, target=TARGET, blocks=2, components=6, mirror=MIRROR
)


def fit(
    pieces: Sequence[Piece],
    people: Sequence[str],
    *,
    steps: int,
    seed: int = 0,
    say: Say = lambda what, done, of: None,
) -> PoseForecaster:
    """Train on canonical clips at 50 Hz.

    Args:
        pieces: the clips.
        people: whose each is; everybody counts by the root of their minutes.
        steps: updates.
        seed: of every random choice.
        say: told of every step.

    Raises:
        OptionError: the loss is not finite.
    """
    torch.manual_seed(seed)
    windows = Windows(pieces, people, seed)
    model = PoseForecaster(CONFIG)
    model.fit_normalisation(torch.cat([windows.batch(512) for _ in range(8)]), 1.0)
    level = _moved(torch.cat([windows.batch(512) for _ in range(4)])).mean(0)
    train_averaged(
        model,
        lambda: _loss(model, windows.batch(BATCH), level),
        steps,
        lambda done: say("ghost", done, steps),
    )
    return model


def _moved(windows: Tensor) -> Tensor:
    """Metres (B, 10) that the joints are, in the mean, from where they were last seen."""
    moved: Tensor = (windows[:, OBSERVED:] - windows[:, OBSERVED - 1 : OBSERVED]).norm(dim=-1).mean(-1)
    return moved


def _loss(model: PoseForecaster, windows: Tensor, level: Tensor) -> Tensor:
    """Distance from the truth at every frame, relative to how far joints go by then and to how far they go in
    this window."""
    guess = model.one_view(windows[:, :OBSERVED])
    # Rounded off below 3 mm, where the slope would jump.
    apart = ((guess - windows[:, OBSERVED:]).square().sum(-1) + 1e-5).sqrt().mean(-1)
    own = _moved(windows).mean(1, keepdim=True) + STILL
    return (apart / level * own.mean() / own).mean()
