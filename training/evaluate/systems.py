"""What is judged: each system says of every frame of a clip what the parameters will be.

A *system* is told the clip, and the clips of the same performer that were shown to it before.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from pyanticip.models import MotionTransformer
from pyanticip.vocabulary import SCALAR_COLUMNS
from training.data.batches import HORIZONS
from training.data.examples import Example
from training.evaluate.measures import AHEAD, Answer
from training.tasks.motion.scores import Predictions, run_model

System = Callable[[Example, Sequence[Example]], Answer]


def answer(said: Predictions) -> Answer:
    """The horizons that are judged."""
    return said.params[:, :, [HORIZONS.index(h) for h in AHEAD]]


def systems_of(model: MotionTransformer) -> Mapping[str, System]:
    """The systems of a checkpoint, by name: the model as it is, and what it is without a part of it."""
    return {"without scalars": lambda example, shown: answer(run_model(model, _steady(model, example)))}


def _steady(model: MotionTransformer, example: Example) -> Example:
    """The clip with every scalar at its mean over the training side: it steers, and tells, nothing."""
    features = np.array(example.features)
    columns = slice(*SCALAR_COLUMNS)
    features[:, columns] = model.mean[columns].numpy()
    return replace(example, features=features)
