"""Everything the model is compared with, tuned on the training subjects and kept in three files."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from training.data.examples import Example
from training.evaluate import event_tuning, trackers
from training.evaluate.event_tuning import EventRivals
from training.tasks.motion import baselines
from training.tasks.motion.baselines import Rivals
from training.tasks.motion.scores import Predict

SETTINGS: Final = Path(__file__).with_name("settings")
"""Folder of the settings as tuned on the training subjects."""


@dataclass(frozen=True)
class AllRivals:
    """Rivals in the parameters and in events."""

    plain: Rivals
    """Hold and straight line."""
    trackers: trackers.Table
    events: EventRivals

    @classmethod
    def load(cls, folder: Path = SETTINGS) -> "AllRivals":
        """Read what :meth:`save` wrote.

        Raises:
            FormatError: a file is missing, damaged, or for another teacher.
        """
        return cls(
            Rivals.load(folder / "rivals.json"),
            trackers.load(folder / "trackers.json"),
            EventRivals.load(folder / "events.json"),
        )

    def save(self, folder: Path) -> None:
        """Write ``rivals.json``, ``trackers.json`` and ``events.json``."""
        folder.mkdir(parents=True, exist_ok=True)
        self.plain.save(folder / "rivals.json")
        trackers.save(self.trackers, folder / "trackers.json")
        self.events.save(folder / "events.json")

    def predictors(self) -> dict[str, Predict]:
        """What each rival says about the parameters of a clip, by its name."""
        return {
            "hold": lambda example: baselines.predict(example, self.plain.hold),
            "linear": lambda example: baselines.predict(example, self.plain.linear),
            "tracker": lambda example: trackers.predict(example, self.trackers),
        }


def tune(examples: Sequence[Example], on_part: Callable[[str], None] | None = None) -> AllRivals:
    """Tune all rivals; takes minutes.

    Args:
        examples: of training subjects.
        on_part: called with what is tuned next.
    """
    say = on_part or (lambda part: None)
    say("tuning: hold and line")
    plain = baselines.tune(examples)
    say("tuning: trackers")
    table = trackers.tune(examples)
    say("tuning: events")
    return AllRivals(plain, table, event_tuning.tune(examples))
