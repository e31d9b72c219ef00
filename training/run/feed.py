"""What a model is trained on, update by update."""

from typing import Any

from training.run.options import TrainOptions


class Resumable:
    """The batches of a run from update ``start`` on, as lightning wants them; iterating gives each part of an
    update with its ``step`` (from 0) and its number within the update, ``part``.

    A batch follows from seed and step, not from states that could get lost: a run that is resumed sees the
    same.
    """

    options: TrainOptions
    start: int
    """Update to begin with."""

    def __len__(self) -> int:
        """Parts of the whole run, those before ``start`` included."""
        return self.options.schedule.steps * self.options.run.accumulate

    def state_dict(self) -> dict[str, Any]:
        """Nothing: where to go on follows from the step. Tells lightning that going on is provided for."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing, see :meth:`state_dict`."""
