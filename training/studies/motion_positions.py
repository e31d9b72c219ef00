"""Does it help a motion model to know where a frame is, and which way of saying so is best?"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch

from pyanticip.models import MotionTransformer
from pyanticip.models.parts.positions.prism.module import PrismPositions
from pyanticip.models.parts.positions.prism.resets import begun
from training.data.batches import event_targets
from training.data.examples import Example
from training.studies.engine import Measure, Study, mean_of
from training.studies.on_glitches import auc
from training.studies.on_motion import MEASURES, SIDES, MotionGround, MotionOptions, units
from training.tasks.motion import MotionTrainOptions

POSITIONS: Final = ("none", "sinusoidal", "rope", "alibi", "trajectory")

PRISM: Final[dict[str, Any]] = {
    "positions": "prism",
    "bias": "none",
    "prism_cursors": 4,
    "prism_width": 16,
    "prism_places": 128,
    "prism_hidden": 48,
    "prism_reset": 0.02,
    "prism_spread": 1.0,
}
"""Cursors for a stream of 50 frames a second: fewer and narrower ones than for symbols, over twice as many
places as attention reaches frames, that rarely reset at first and step at different rates."""

ARMS: Final[dict[str, dict[str, dict[str, Any]]]] = {
    **{name: {"model": {"positions": name, "bias": "none"}} for name in POSITIONS},
    "prism": {"model": PRISM},
    "prism-phrase": {"model": PRISM, "loss": {"reset": 0.1}},
}


class PositionsGround(MotionGround):
    """Of models with learned cursors also ``resets.taught`` and ``resets.best``: the area under the curve of
    their resets where phrases begin, of the cursors that may be told and of the best one."""

    def judge(self, model: MotionTransformer, options: MotionTrainOptions) -> dict[str, Any]:
        """The scores of a model."""
        found = super().judge(model, options)
        for split, clips in (
            self.held_out.items() if isinstance(model.trunk.positions, PrismPositions) else ()
        ):
            for subject, row in found[split].items():
                row.update(resets_of(model, [e for e in clips if e.subject == subject]))
        return found


@torch.no_grad()
def resets_of(model: MotionTransformer, clips: Sequence[Example]) -> dict[str, float]:
    """``resets.taught`` and ``resets.best`` of one subject's clips; nothing where no phrase begins."""
    watch = model.trunk.positions.watch()
    said, taught, labels = [], [], []
    for example in clips:
        model(torch.from_numpy(example.features)[None])
        assert watch.logits is not None
        said.append(watch.logits[0].double().numpy())
        taught.append(watch.taught()[0].double().numpy())
        bins, _ = event_targets(example.phrases, len(example))
        labels.append(begun(torch.from_numpy(bins)[None])[0].numpy() > 0.5)
    watch.handle.remove()
    right = np.concatenate(labels)
    if not right.any() or right.all():
        return {}
    each, told = ([auc(column, right) for column in np.concatenate(values).T] for values in (said, taught))
    return {"resets.taught": round(float(np.mean(told)), 4), "resets.best": round(max(each), 4)}


STUDY: Final = Study(
    title="Do positions help on motion?",
    options=MotionOptions,
    arms=ARMS,
    pairs=(
        *((name, "none") for name in (*POSITIONS[1:], "prism", "prism-phrase")),
        *(("trajectory", name) for name in POSITIONS[1:4]),
        *(("prism", name) for name in POSITIONS[1:]),
        *(("prism-phrase", name) for name in (*POSITIONS[1:], "prism")),
    ),
    tables=(
        (
            "Errors as a ratio to hold's, events, scalars, and resets at phrases",
            (
                *MEASURES,
                Measure("resets, told", mean_of("resets.taught")),
                Measure("resets, best", mean_of("resets.best")),
            ),
        ),
    ),
    ground=lambda options, case, folder: PositionsGround(ARMS, options, folder),
    views=tuple(SIDES),
    units=units,
)
