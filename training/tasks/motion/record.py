"""What the training of a motion model writes down: metrics, averaged weights, validation, throughput."""

from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import torch
from numpy.typing import NDArray

from pyanticip.models import MotionTransformer
from training.run.average import AveragingRecorder
from training.tasks.motion.data import TrainingData
from training.tasks.motion.module import PIECES, MotionModule
from training.tasks.motion.options import MotionTrainOptions
from training.tasks.motion.validation import COLUMNS, row, validate
from training.tasks.motion.windows import Feed

SPEED: Final = ("frames_per_second", "loader_wait")
"""Frames trained on in a second, over all processes, and the share of the time that the model waited for
them; of the time between validations, since training began or went on."""


class MotionRecorder(AveragingRecorder):
    """See :class:`training.run.average.AveragingRecorder`.

    Args:
        folder: where to write.
        options: of the run.
        data: to validate on.
        scale: (8, 5) how far the parameters move.
        module: what is trained; its weights are averaged here.
        feed: where it is fed from.
        start: update the run goes on from.
    """

    columns: ClassVar = ("step", "lr", *PIECES, "grad_norm", *COLUMNS, "seconds", *SPEED)
    trained: ClassVar = PIECES
    shown: ClassVar = "total"
    judged_by: ClassVar = "valid_score"
    options: MotionTrainOptions

    def __init__(
        self,
        folder: Path,
        options: MotionTrainOptions,
        data: TrainingData,
        scale: NDArray[np.float64],
        module: MotionModule,
        feed: Feed,
        start: int,
    ) -> None:
        super().__init__(folder, options, start, module)
        self.data, self.scale, self.feed = data, scale, feed
        self.judge = MotionTransformer(module.model.cfg).eval()
        self.frames = 0
        """Frames trained on since training began or went on, over all processes."""

    def updated(self, module: Any, done: int, batch: Any) -> None:
        """As the base's, and count the frames."""
        super().updated(module, done, batch)
        self.frames += batch.frames

    def extras(self, done: int, means: dict[str, float]) -> dict[str, float]:
        """The learning rate and the throughput."""
        return {**super().extras(done, means), **self.speed()}

    def speed(self) -> dict[str, float]:
        """See :data:`SPEED`."""
        busy = max(self.busy, 1e-9)
        return {"frames_per_second": self.frames / busy, "loader_wait": min(self.feed.waited / busy, 1.0)}

    def note(self) -> str:
        """Throughput for the progress bar."""
        speed = self.speed()
        return f"{speed['frames_per_second']:.0f} frames/s, waiting {100 * speed['loader_wait']:.1f} %"

    def validate(self, module: Any, done: int) -> dict[str, float]:
        """The figures of the averaged weights on the validation subjects, each process on its share."""
        self.judge.load_state_dict(self.averaged(module))
        with torch.random.fork_rng():
            return row(
                validate(self.judge, self.data.validation, self.scale, rank=self.rank, world=self.world)
            )

    def enough(self) -> bool:
        """Whether as many validations as ``schedule.patience`` says were no better than the best."""
        patience = self.options.schedule.patience
        return patience > 0 and self.step - self.best_step >= patience * self.options.run.validate_every
