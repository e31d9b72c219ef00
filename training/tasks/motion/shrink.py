"""Shrinkage of what cannot be known: each parameter 400 ms ahead is drawn a little towards a slow hold.

The smoothed measures are, by construction, the logits of the parameters that they stand for: the mean of the
last 60 to 500 ms, held. What the model says of people it never saw is too sure in some parameters far ahead.
There a part of its logit is replaced by that hold. Which part, and over which stretch, is chosen on the
validation subjects; both are linear in what the control head reads, so they become part of its weights.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pyanticip.models import MotionTransformer
from pyanticip.models.motion.kinematics import MEASURES
from pyanticip.models.motion.smoothed import BODY, HANDS, JERK, QUANTITIES, SHARING, SIDE, SPEED, STRETCHES
from pyanticip.vocabulary import HORIZONS_MS, PARAMETERS, RATE
from training.data.batches import HORIZONS
from training.data.examples import Example
from training.tasks.motion.scores import measure, run_model

SHARES: Final = (0.1, 0.2)
"""Shares of the hold that are tried beside none."""

FIRST_HORIZON: Final = 4
"""Index of the first horizon at which anything is drawn: 400 ms."""

# Of a frame's measures the height of the hands and the extension; of the smoothed ones the rest.
_OF_A_FRAME: Final = {"pitch": 0, "space": 4}
_SMOOTHED: Final = {
    "loudness": ((BODY, 1.0),),
    "brightness": ((HANDS, 1.0),),
    "roughness": ((JERK, 1.0), (SPEED, -1.0)),
    "density": ((SHARING, 1.0),),
    "pan": ((SIDE, -1.0),),
}


def slow_hold(parameter: str, stretch: int, taps: int) -> Tensor | None:
    """Weights, over what the control head reads of the last frames, of a parameter's mean over a stretch.

    None for the pulse, which no measure stands for.
    """
    frames = torch.zeros(MEASURES, taps)
    means = torch.zeros(len(STRETCHES), QUANTITIES)
    if parameter in _OF_A_FRAME:
        length = min(STRETCHES[stretch], taps)
        frames[_OF_A_FRAME[parameter], taps - length :] = 1.0 / length
    elif parameter in _SMOOTHED:
        for quantity, weight in _SMOOTHED[parameter]:
            means[stretch, quantity] = weight
    else:
        return None
    return torch.cat((frames.flatten(), means.flatten()))


def draw_towards(model: MotionTransformer, row: int, share: float, forecast: Tensor) -> None:
    """Replace, in place, a share of the logit in ``row`` (of 40) of the control head by a linear forecast.

    Args:
        model: one with kinematics.
        row: parameter times horizons, plus horizon.
        share: 0 to 1.
        forecast: its weights over what the control head reads of the last frames.
    """
    control = model.control
    assert control.recent is not None
    with torch.no_grad():
        control.last.weight[row] *= 1.0 - share
        control.last.bias[row] *= 1.0 - share
        control.recent.weight[row] = (1.0 - share) * control.recent.weight[row] + share * forecast


def take_back(model: MotionTransformer, done: Sequence[Mapping[str, Any]]) -> None:
    """Undo in place what :func:`shrink` did, by its own account."""
    control = model.control
    for one in done:
        assert control.recent is not None
        k, i = PARAMETERS.index(one["parameter"]), HORIZONS_MS.index(one["horizon_ms"])
        stretch = STRETCHES.index(round(one["hold_ms"] * RATE / 1000.0))
        hold, row = slow_hold(PARAMETERS[k], stretch, model.cfg.taps), k * len(HORIZONS) + i
        assert hold is not None
        share = float(one["share"])
        with torch.no_grad():
            control.last.weight[row] /= 1.0 - share
            control.last.bias[row] /= 1.0 - share
            control.recent.weight[row] = (control.recent.weight[row] - share * hold) / (1.0 - share)


def shrink(model: MotionTransformer, examples: Sequence[Example]) -> list[dict[str, Any]]:
    """Choose shares and stretches on held-out examples and put them into the weights.

    Returns:
        What was done: parameter, horizon, share of the hold and its stretch, both in milliseconds.
    """
    control = model.control
    if control.recent is None:
        return []
    kept = {name: value.clone() for name, value in control.state_dict().items()}

    def errors() -> NDArray[np.float64]:
        return measure(examples, lambda example: run_model(model, example).params).mean()

    best = errors()
    shares = np.zeros_like(best)
    stretches = np.zeros(best.shape, dtype=np.int64)
    rows = [
        (k, i, name)
        for k, name in enumerate(PARAMETERS)
        for i in range(FIRST_HORIZON, len(HORIZONS))
        if slow_hold(name, 0, model.cfg.taps) is not None
    ]

    def put(k: int, i: int, name: str, share: float, stretch: int) -> None:
        hold = slow_hold(name, stretch, model.cfg.taps)
        assert hold is not None
        draw_towards(model, k * len(HORIZONS) + i, share, hold)

    # The rows of the head do not hear one another: all are tried at once.
    for stretch in range(len(STRETCHES)):
        for share in SHARES:
            for k, i, name in rows:
                put(k, i, name, share, stretch)
            found = errors()
            control.load_state_dict(kept)
            better = found < best
            better[:, :FIRST_HORIZON] = False
            best = np.where(better, found, best)
            shares[better], stretches[better] = share, stretch
    done: list[dict[str, Any]] = []
    for k, i, name in rows:
        share, stretch = float(shares[k, i]), int(stretches[k, i])
        if share > 0.0:
            put(k, i, name, share, stretch)
            ms = round(STRETCHES[stretch] * 1000.0 / RATE)
            done.append({"parameter": name, "horizon_ms": HORIZONS_MS[i], "share": share, "hold_ms": ms})
    return done
