"""The rivals that learn nothing: fifteen in the parameters, one in events; tuned on the training subjects."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pyanticip._core import Follower, Memory
from pyanticip.models import MotionTransformer
from pyanticip.vocabulary import RATE, SCALAR_COLUMNS
from training.data.batches import HORIZONS
from training.data.examples import Example
from training.evaluate import event_tuning, trackers
from training.evaluate.event_tuning import EventBaselines
from training.evaluate.measures import AHEAD, Answer
from training.tasks.motion import baselines as parameter_baselines
from training.tasks.motion.baselines import ParameterBaselines
from training.tasks.motion.scores import Predictions, run_model
from training.teacher.filters import MOTION_DELAY_S, causal_twin

SETTINGS: Final = Path(__file__).with_name("settings")
"""Folder of the settings as tuned on the training subjects."""


@dataclass(frozen=True)
class Baselines:
    """Rivals in the parameters and in events."""

    plain: ParameterBaselines
    """Hold and straight line."""
    trackers: trackers.Table
    events: EventBaselines

    @classmethod
    def load(cls, folder: Path = SETTINGS) -> "Baselines":
        """Read what :meth:`save` wrote.

        Raises:
            FormatError: a file is missing, damaged, or for another teacher.
        """
        return cls(
            ParameterBaselines.load(folder / "rivals.json"),
            trackers.load(folder / "trackers.json"),
            EventBaselines.load(folder / "events.json"),
        )

    def save(self, folder: Path) -> None:
        """Write ``rivals.json``, ``trackers.json`` and ``events.json``."""
        folder.mkdir(parents=True, exist_ok=True)
        self.plain.save(folder / "rivals.json")
        trackers.save(self.trackers, folder / "trackers.json")
        self.events.save(folder / "events.json")


DELAYS_MS: Final = (0, 20, 60, 100, 160, 250)
"""Of the six that hold."""
MEANS_S: Final = (1, 2, 4, 8)
HALVES_S: Final = (2, 4)
CALM_MS: Final = 20
"""Delay of what the means are taken of."""


class Twins:
    """The causal twin of one clip at any delays, each made once.

    Args:
        quats: (T, 22, 4).
    """

    def __init__(self, quats: NDArray[np.floating]) -> None:
        self.quats = quats
        self.made: parameter_baselines.Made = {}

    def at(self, delay_ms: int) -> NDArray[np.float64]:
        """(T, 8) with that delay."""
        key = (delay_ms / 1000.0, MOTION_DELAY_S)
        if key not in self.made:
            self.made[key] = causal_twin(self.quats, *key)
        return self.made[key].astype(np.float64)

    def mean(self, seconds: float) -> NDArray[np.float64]:
        """(T, 8): the mean over the last so many seconds, or since the beginning."""
        rows = self.at(CALM_MS)
        sums = np.concatenate([np.zeros((1, rows.shape[1])), np.cumsum(rows, axis=0)])
        last = np.arange(1, len(rows) + 1)
        first = np.maximum(last - round(seconds * RATE), 0)
        return np.asarray((sums[last] - sums[first]) / (last - first)[:, None])

    def half(self, seconds: float) -> NDArray[np.float64]:
        """(T, 8): half of what is held and half of the mean."""
        return 0.5 * (self.at(CALM_MS) + self.mean(seconds))


def simple(example: Example, twins: Twins, tuned: Baselines) -> dict[str, Answer]:
    """What the fifteen rivals that have not learned say about a clip."""
    rows = {f"hold, {ms} ms late": twins.at(ms) for ms in DELAYS_MS}
    rows |= {f"mean over {s} s": twins.mean(s) for s in MEANS_S}
    rows |= {f"half hold, half mean over {s} s": twins.half(s) for s in HALVES_S}
    found = {name: np.repeat(row[:, :, None], len(AHEAD), 2).astype(np.float32) for name, row in rows.items()}
    ahead = [HORIZONS.index(h) for h in AHEAD]
    found["hold, tuned"] = parameter_baselines.predict(example, tuned.plain.hold, twins.made)[:, :, ahead]
    found["line"] = parameter_baselines.predict(example, tuned.plain.linear, twins.made)[:, :, ahead]
    found["tracker"] = trackers.predict(example, tuned.trackers, twins.made)[:, :, ahead]
    return found


def tune(examples: Sequence[Example], on_part: Callable[[str], None] | None = None) -> Baselines:
    """Tune all rivals; takes minutes.

    Args:
        examples: of training subjects.
        on_part: called with what is tuned next.
    """
    say = on_part or (lambda part: None)
    say("tuning: hold and line")
    plain = parameter_baselines.tune(examples)
    say("tuning: trackers")
    table = trackers.tune(examples)
    say("tuning: events")
    return Baselines(plain, table, event_tuning.tune(examples))


PLAYED: Final = "mixed live with a memory"
"""The model as it is played."""

System = Callable[[Example, Predictions, Sequence[Example]], Answer]
"""What is judged says of every frame of a clip what the parameters will be: told the clip, what the model
says of it, and the clips of the same performer that were shown before."""


def answer(params: NDArray[np.float32]) -> Answer:
    """The horizons that are judged, of parameters (T, 8, 5)."""
    return params[:, :, [HORIZONS.index(h) for h in AHEAD]]


def systems_of(model: MotionTransformer) -> Mapping[str, System]:
    """What is judged beside the model as it is, by name."""

    def without_scalars(example: Example, output: Predictions, shown: Sequence[Example]) -> Answer:
        return answer(run_model(model, _steady(model, example)).params)

    return {
        "without scalars": without_scalars,
        "mixed live, no memory": lambda example, output, shown: _played(example, output.params, (), False),
        PLAYED: lambda example, output, shown: _played(example, output.params, shown),
        "memory without the model": lambda example, output, shown: _played(example, None, shown),
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
