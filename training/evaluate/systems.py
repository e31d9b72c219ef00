"""What is judged: each system says of every frame of a clip what the parameters will be.

A *system* is told the clip, what the model says of it, and the clips of the same performer that were shown
before.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pyanticip._core import Follower, Memory
from pyanticip.models import MotionTransformer
from pyanticip.vocabulary import SCALAR_COLUMNS
from training.data.batches import HORIZONS
from training.data.examples import Example
from training.evaluate.measures import AHEAD, Answer
from training.tasks.motion.scores import Predictions, run_model

PLAYED: Final = "mixed live with a memory"
"""The model as it is played."""

System = Callable[[Example, Predictions, Sequence[Example]], Answer]


def answer(params: NDArray[np.float32]) -> Answer:
    """The horizons that are judged, of parameters (T, 8, 5)."""
    return params[:, :, [HORIZONS.index(h) for h in AHEAD]]


def systems_of(model: MotionTransformer) -> Mapping[str, System]:
    """What is judged beside the model as it is, by name."""

    def without_scalars(example: Example, said: Predictions, shown: Sequence[Example]) -> Answer:
        return answer(run_model(model, _steady(model, example)).params)

    return {
        "without scalars": without_scalars,
        "mixed live, no memory": lambda example, said, shown: _played(example, said.params, (), False),
        PLAYED: lambda example, said, shown: _played(example, said.params, shown),
        "memory without the model": lambda example, said, shown: _played(example, None, shown),
    }


def _played(
    example: Example, params: NDArray[np.float32] | None, shown: Sequence[Example], learning: bool = True
) -> Answer:
    """What a memory that was shown some takes, and none else, makes of a clip."""
    memory = Memory()
    for number, take in enumerate(shown):
        memory.rehearse(f"{take.name} {number}", take.quats)
    memory.learning = learning
    places = Follower([take.quats for take in shown]).push_many(example.quats) if shown else None
    return answer(memory.push_many(example.quats, params, places)[0])


def _steady(model: MotionTransformer, example: Example) -> Example:
    """The clip with every scalar at its mean over the training side: it steers, and tells, nothing."""
    features = np.array(example.features)
    columns = slice(*SCALAR_COLUMNS)
    features[:, columns] = model.mean[columns].numpy()
    return replace(example, features=features)
