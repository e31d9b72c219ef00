"""What the training of a token model writes down: its metrics and its validation."""

from typing import Any, ClassVar, Final

import torch
from torch.distributed import ReduceOp, all_reduce

from training.run.recorder import Recorder
from training.tasks.token.losses import PARTS
from training.tasks.token.module import LanguageModule, summed_losses
from training.tasks.token.options import LanguageOptions
from training.tasks.token.windows import Prepared, Windows

LOSS: Final = "loss"
"""Column of the paper's loss, the one figures are compared by."""

TRAINED: Final = tuple({"paper": LOSS}.get(name, name) for name in PARTS)
VALIDATED: Final = tuple(f"valid_{name}" for name in TRAINED)


class LanguageRecorder(Recorder):
    """See :class:`training.run.recorder.Recorder`.

    In a row ``predicted`` is the share of the model's own scalars, ``seconds`` the time spent in updates and
    validations so far.

    Args:
        prepared: where to write, and the data to validate on.
        start: update the run goes on from.
    """

    columns: ClassVar = ("step", "lr", *TRAINED, "grad_norm", "predicted", *VALIDATED, "seconds")
    trained: ClassVar = TRAINED
    shown: ClassVar = LOSS
    judged_by: ClassVar = "valid_ce"
    options: LanguageOptions

    def __init__(self, prepared: Prepared, start: int) -> None:
        super().__init__(prepared.folder, prepared.options, start)
        self.windows: Windows = prepared.data.valid

    def extras(self, done: int, means: dict[str, float]) -> dict[str, float]:
        """The learning rate, and the share of the model's own scalars."""
        own = 1.0 if self.options.loss.scalars == "self" else self.options.sampled(done - 1)
        return {**super().extras(done, means), "predicted": own}

    def validate(self, module: Any, done: int) -> dict[str, float]:
        """Every part of the loss on the validation windows, each process on its share."""
        assert isinstance(module, LanguageModule)
        windows = self.windows
        mine = windows.spread(self.options.data.valid_windows)[self.rank :: self.world]
        size = max(1, self.options.schedule.batch // (self.world * self.options.run.accumulate))
        pieces = [torch.from_numpy(windows.take(mine[at : at + size])) for at in range(0, len(mine), size)]
        sums = summed_losses(module, pieces)
        if self.world > 1:
            all_reduce(sums, ReduceOp.SUM)
        return dict(zip(VALIDATED, (sums[:-1] / sums[-1]).tolist(), strict=True))
