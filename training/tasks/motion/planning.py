"""Plans in the training of a motion model: its codebook, the codes of what comes, and what is minimised."""

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

ROWS: Final = 20_000
"""Frames that a codebook is fitted to, at most: evenly spaced over all there are."""


def fit_codebook(model: MotionTransformer, examples: Sequence[Example]) -> float | None:
    """Fit the codebook of a model with planning, and tell it how often its codes come.

    The same for every seed: what differs between runs is not the language that they plan in.

    Args:
        model: changed in place; one without planning is left alone.
        examples: the training clips, without copies.

    Returns:
        The share of the frames' variance that the codes leave out, None without planning.

    Raises:
        OptionError: fewer frames than codes.
    """
    if model.codebook is None or model.planning is None:
        return None
    counts, lost = fitted(model.codebook, examples)
    model.planning.set_frequencies(counts)
    return lost


def fitted(codebook: PlanCodebook, examples: Sequence[Example]) -> tuple[Tensor, float]:
    """How often each code comes (C,) in clips that a codebook is fitted to, and :meth:`PlanCodebook.error`.

    Raises:
        OptionError: fewer frames than codes.
    """
    every = max(-(-sum(map(len, examples)) // ROWS), 1)
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
    """The codes (b, L + K) of the frames of windows and of the K after them, -1 beyond a clip's end."""
    assert model.codebook is not None
    assert part.beyond is not None
    assert part.inside is not None
    rows = torch.cat((part.batch.features, part.beyond), 1)
    return torch.where(part.inside, model.codebook(rows), -1)


def plans_for(model: MotionTransformer, codes: Tensor, length: int) -> PlanChoice:
    """The plans that windows of ``length`` frames are trained with: drawn from the simulator."""
    assert model.planning is not None
    with torch.no_grad():
        return model.planning.simulate(codes, length)
