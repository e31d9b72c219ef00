"""Plans in the training of a motion model: its codebook, and the codes of future frames."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from torch import Tensor

from pyanticip.errors import OptionError
from pyanticip.models import MotionTransformer
from pyanticip.models.parts.planning.codebook import PlanCodebook
from pyanticip.models.parts.planning.targets import PlanChoice
from training.data.examples import Example
from training.tasks.motion.windows import Part

MAX_ROWS: Final = 20_000
"""Maximum number of frames that a codebook is fitted to, evenly spaced."""


def fit_codebook(model: MotionTransformer, examples: Sequence[Example]) -> float | None:
    """Fit the codebook of a model with planning, and set the frequencies of its codes.

    The codebook does not depend on the seed, so that runs with other seeds plan with the same codes.

    Args:
        model: changed in place; a model without planning is left alone.
        examples: the training clips, without copies.

    Returns:
        The share of the frames' variance that the codes do not explain; None without planning.

    Raises:
        OptionError: fewer frames than codes.
    """
    if model.codebook is None or model.planning is None:
        return None
    counts, lost = fitted(model.codebook, examples)
    model.planning.set_frequencies(counts)
    return lost


def fitted(codebook: PlanCodebook, examples: Sequence[Example]) -> tuple[Tensor, float]:
    """Fit a codebook to clips; returns the count of each code (C,) and :meth:`PlanCodebook.error`.

    Raises:
        OptionError: fewer frames than codes.
    """
    every = max(-(-sum(map(len, examples)) // MAX_ROWS), 1)
    rows = np.concatenate([np.asarray(example.features)[::every] for example in examples])
    codes = len(codebook.centres)
    if len(rows) < codes:
        raise OptionError(
            f"option model.plan_codes: {codes} codes cannot be learned from {len(rows)} frames of motion"
        )
    lost = codebook.fit(torch.from_numpy(rows))
    counts = torch.zeros(codes)
    for example in examples:
        counts += codebook.counts(torch.from_numpy(np.array(example.features)))
    return counts, lost


@torch.no_grad()
def codes_of(model: MotionTransformer, part: Part) -> Tensor:
    """Codes (b, L + K) of the frames of windows and of the K frames after them, -1 beyond a clip's end."""
    assert model.codebook is not None
    assert part.beyond is not None
    assert part.inside is not None
    rows = torch.cat((part.batch.features, part.beyond), 1)
    return torch.where(part.inside, model.codebook(rows), -1)


def plans_for(model: MotionTransformer, codes: Tensor, length: int) -> PlanChoice:
    """Draw the plans for training windows of ``length`` frames from the simulator."""
    assert model.planning is not None
    with torch.no_grad():
        return model.planning.simulate(codes, length)
