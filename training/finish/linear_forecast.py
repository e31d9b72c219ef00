"""A forecast of the parameters that is linear in the measures of the last half second, without the trunk."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from pyanticip.errors import OptionError
from pyanticip.models import MotionTransformer
from pyanticip.vocabulary import PARAMETERS
from training.data.batches import HORIZONS, TARGET_EDGE
from training.data.examples import Example

CELLS: Final = (len(PARAMETERS), len(HORIZONS))

STEPS: Final = 2000
FRAMES: Final = 4096
RATE_OF_LEARNING: Final = 3e-3
RIDGE: Final = 1e-3
"""Share of the inputs' power added to it for the start, so that the weights stay small."""


@dataclass(frozen=True)
class LinearForecast:
    """Weights over what the control head reads of the last frames."""

    weight: Tensor
    """(40, numbers): of the logit of every parameter at every horizon."""
    bias: Tensor
    """(40,)."""

    def logits(self, recent: Tensor) -> Tensor:
        """(T, 8, 5) of the numbers of the last frames (T, numbers)."""
        return (recent @ self.weight.T + self.bias).view(-1, *CELLS)


def recent_of(model: MotionTransformer, example: Example) -> Tensor:
    """What the control head reads of the last frames, (T, numbers), in every frame of a clip.

    Raises:
        OptionError: a model without kinematics, whose head reads nothing.
    """
    with torch.no_grad():
        recent = model.embed(torch.from_numpy(np.array(example.features))[None]).recent
    if recent is None:
        raise OptionError("blending needs a model with kinematics: the control head reads no measures")
    return recent[0]


def fit_forecast(
    model: MotionTransformer, examples: Sequence[Example], *, steps: int = STEPS, seed: int = 0
) -> LinearForecast:
    """The linear forecast with the least absolute error on clips.

    Subjects count by the root of their frames, as in training; each parameter at each horizon is fitted by
    itself. Starts from the ridge regression of the logits.

    Args:
        model: for the measures; its weights do not matter.
        examples: of training subjects.
        steps: of Adam, each on 4,096 frames.
        seed: which frames.
    """
    frames: dict[str, int] = {}
    for example in examples:
        frames[example.subject] = frames.get(example.subject, 0) + len(example)
    inputs, targets, counts = [], [], []
    for example in examples:
        now = np.arange(len(example))
        ahead = now[:, None] + np.array(HORIZONS)
        inside = (ahead >= TARGET_EDGE) & (ahead < len(example) - TARGET_EDGE)
        # Before that the measures' own frames are padding.
        inside &= (now >= model.cfg.taps - 1)[:, None]
        lesson = np.asarray(example.params)[np.minimum(ahead, len(example) - 1)]
        inputs.append(recent_of(model, example))
        targets.append(torch.from_numpy(lesson.transpose(0, 2, 1).copy()))
        counts.append(torch.from_numpy(inside / np.sqrt(frames[example.subject])).float())
    x, y, count = torch.cat(inputs), torch.cat(targets), torch.cat(counts)
    mean, std = x.mean(0), x.std(0) + 1e-4
    x = torch.cat(((x - mean) / std, torch.ones(len(x), 1)), 1)
    known = count.mean(1, keepdim=True)
    power = x.T @ (x * known)
    power += RIDGE * power.diagonal().mean() * torch.eye(len(power))
    logits = torch.logit(y.clamp(0.01, 0.99)).flatten(1)
    weights = torch.nn.Parameter(torch.linalg.solve(power, x.T @ (logits * known)))
    optimizer = torch.optim.Adam([weights], lr=RATE_OF_LEARNING)
    draw = torch.Generator().manual_seed(seed)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = RATE_OF_LEARNING * (1.0 - step / steps) + 1e-5
        rows = torch.randint(0, len(x), (FRAMES,), generator=draw)
        wrong = (torch.sigmoid(x[rows] @ weights).view(-1, *CELLS) - y[rows]).abs()
        loss = (wrong * count[rows, None]).sum() / count[rows].sum().clamp(min=1e-9)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    fitted = weights.detach()
    weight = (fitted[:-1] / std[:, None]).T.contiguous()
    return LinearForecast(weight, fitted[-1] - weight @ mean)
