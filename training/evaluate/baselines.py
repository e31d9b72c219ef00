"""Baselines without learning, tuned on the training subjects: fifteen for the parameters, one for events."""

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
from training.evaluate.trackers import Tracker
from training.tasks.motion import baselines as parameter_baselines
from training.tasks.motion.baselines import ParameterBaselines, Table, extrapolate, predict
from training.tasks.motion.scores import Predictions, run_model
from training.teacher.filters import MOTION_DELAY_S

SETTINGS: Final = Path(__file__).with_name("settings")
"""Folder of the settings tuned on the training subjects."""


@dataclass(frozen=True)
class Baselines:
    """Tuned baselines for the parameters and for events."""

    plain: ParameterBaselines
    """Hold and linear extrapolation."""
    trackers: Table[Tracker]
    events: EventBaselines

    @classmethod
    def load(cls, folder: Path = SETTINGS) -> "Baselines":
        """Read what :meth:`save` wrote.

        Raises:
            FormatError: a file is missing, damaged, or tuned for another teacher.
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
"""Delays of the six baselines that hold."""
MEANS_S: Final = (1, 2, 4, 8)
"""Windows of the baselines that predict the mean."""
HALVES_S: Final = (2, 4)
"""Windows of those that average hold and mean."""
MEAN_DELAY_MS: Final = 20
"""Delay of the twin that the means are taken of."""


class Twins(parameter_baselines.Twins):
    """Causal twins of one clip, and their means."""

    def at(self, delay_ms: int) -> NDArray[np.float64]:
        """(T, 8): the twin with this delay."""
        return self.delayed(delay_ms / 1000.0, MOTION_DELAY_S).astype(np.float64)

    def mean(self, seconds: float) -> NDArray[np.float64]:
        """(T, 8): mean of the twin over the last ``seconds``, or since the beginning."""
        rows = self.at(MEAN_DELAY_MS)
        sums = np.concatenate([np.zeros((1, rows.shape[1])), np.cumsum(rows, axis=0)])
        last = np.arange(1, len(rows) + 1)
        first = np.maximum(last - round(seconds * RATE), 0)
        return np.asarray((sums[last] - sums[first]) / (last - first)[:, None])

    def half(self, seconds: float) -> NDArray[np.float64]:
        """(T, 8): average of the current value and of :meth:`mean`."""
        return 0.5 * (self.at(MEAN_DELAY_MS) + self.mean(seconds))


def simple_forecasts(twins: Twins, tuned: Baselines) -> dict[str, Answer]:
    """Forecasts of the fifteen baselines without learning for a clip, by name."""
    rows = {f"hold, {ms} ms late": twins.at(ms) for ms in DELAYS_MS}
    rows |= {f"mean over {s} s": twins.mean(s) for s in MEANS_S}
    rows |= {f"half hold, half mean over {s} s": twins.half(s) for s in HALVES_S}
    forecasts = {
        name: np.repeat(row[:, :, None], len(AHEAD), 2).astype(np.float32) for name, row in rows.items()
    }
    forecasts["hold, tuned"] = answer(predict(twins, tuned.plain.hold, extrapolate))
    forecasts["line"] = answer(predict(twins, tuned.plain.linear, extrapolate))
    forecasts["tracker"] = answer(predict(twins, tuned.trackers, trackers.forecast))
    return forecasts


def tune(examples: Sequence[Example], on_part: Callable[[str], None] | None = None) -> Baselines:
    """Tune all baselines; takes minutes.

    Args:
        examples: clips of training subjects.
        on_part: called with a description of what is tuned next.
    """
    say = on_part or (lambda part: None)
    say("tuning: hold and line")
    plain = parameter_baselines.tune(examples)
    say("tuning: trackers")
    table = trackers.tune(examples)
    say("tuning: events")
    return Baselines(plain, table, event_tuning.tune(examples))


PLAYED: Final = "mixed live with a memory"
"""Name of the system that ``live`` plays: the model mixed with a memory."""

System = Callable[[Example, Predictions, Sequence[Example]], Answer]
"""Forecasts the parameters for every frame of a clip, from the clip, the model's output for it, and earlier
clips of the same performer."""


def answer(params: NDArray[np.float32]) -> Answer:
    """Select the evaluated horizons from parameters (T, 8, 5)."""
    return params[:, :, [HORIZONS.index(h) for h in AHEAD]]


def systems_of(model: MotionTransformer) -> Mapping[str, System]:
    """Systems that are evaluated beside the plain model, by name."""

    def without_scalars(example: Example, output: Predictions, earlier: Sequence[Example]) -> Answer:
        return answer(run_model(model, _with_mean_scalars(model, example)).params)

    return {
        "without scalars": without_scalars,
        "mixed live, no memory": lambda example, output, earlier: _played(example, output.params, (), False),
        PLAYED: lambda example, output, earlier: _played(example, output.params, earlier),
        "memory without the model": lambda example, output, earlier: _played(example, None, earlier),
    }


def _played(
    example: Example, params: NDArray[np.float32] | None, earlier: Sequence[Example], learning: bool = True
) -> Answer:
    """Forecasts of a memory that has rehearsed ``earlier``; ``params``: the model's, to be mixed in."""
    memory = Memory()
    for number, take in enumerate(earlier):
        memory.rehearse(f"{take.name} {number}", take.quats)
    memory.learning = learning
    places = Follower([take.quats for take in earlier]).push_many(example.quats) if earlier else None
    return answer(memory.push_many(example.quats, params, places)[0])


def _with_mean_scalars(model: MotionTransformer, example: Example) -> Example:
    """The clip with every scalar at its training mean, so that the scalars carry no information."""
    features = np.array(example.features)
    columns = slice(*SCALAR_COLUMNS)
    features[:, columns] = model.mean[columns].numpy()
    return replace(example, features=features)
