"""The books of the training of a token model: its metrics, its validation, its best weights."""

from collections.abc import Callable
from typing import Any, ClassVar, Final

import torch
from torch.distributed import ReduceOp, all_reduce

from training.run.books import Books, OnUpdate, Pace
from training.run.files import BEST, save_weights
from training.tasks.token.data import Windows
from training.tasks.token.folder import Run
from training.tasks.token.losses import PARTS
from training.tasks.token.module import LanguageModule, summed_losses
from training.tasks.token.options import LanguageOptions

LOSS: Final = "loss"
"""Column of the paper's loss, the one figures are compared by."""

TRAINED: Final = tuple({"paper": LOSS}.get(name, name) for name in PARTS)
VALIDATED: Final = tuple(f"valid_{name}" for name in TRAINED)


def pace(options: LanguageOptions) -> Pace:
    """How long a run is and what is due when."""
    run = options.run
    return Pace(options.schedule.steps, run.log_every, run.validate_every, run.save_every, run.accumulate)


class Record(Books):
    """The books of a run; see :class:`training.run.books.Books`.

    In a row ``predicted`` is the share of the model's own scalars, ``seconds`` the time spent in updates and
    validations so far.

    Args:
        run: where to write, and the data to validate on.
        start: update the run goes on from.
        stop: asked after every update whether to save and stop.
        on_update: called after every update.
    """

    columns: ClassVar = ("step", "lr", *TRAINED, "grad_norm", "predicted", *VALIDATED, "seconds")
    trained: ClassVar = TRAINED
    shown: ClassVar = LOSS
    judged_by: ClassVar = "valid_ce"

    def __init__(self, run: Run, start: int, stop: Callable[[], bool], on_update: OnUpdate) -> None:
        super().__init__(run.folder, pace(run.options), start, stop, on_update)
        self.run, self.options = run, run.options

    def extras(self, done: int, means: dict[str, float]) -> dict[str, float]:
        """The learning rate, and the share of the model's own scalars."""
        options = self.options
        own = 1.0 if options.loss.scalars == "self" else options.sampled(done - 1)
        return {"lr": options.schedule.learning_rate(done - 1), "predicted": own}

    def validate(self, module: Any, done: int) -> dict[str, float]:
        """Every part of the loss on the validation windows, each process on its share."""
        assert isinstance(module, LanguageModule)
        windows: Windows = self.run.data.valid
        mine = windows.spread(self.options.data.valid_windows)[self.rank :: self.world]
        size = max(1, self.options.schedule.batch // (self.world * self.options.run.accumulate))
        pieces = [torch.from_numpy(windows.take(mine[at : at + size])) for at in range(0, len(mine), size)]
        sums = summed_losses(module, pieces)
        if self.world > 1:
            all_reduce(sums, ReduceOp.SUM)
        return dict(zip(VALIDATED, (sums[:-1] / sums[-1]).tolist(), strict=True))

    def keep(self, module: Any) -> None:
        """Replace the best weights of the run."""
        save_weights(self.folder / BEST, module.model.state_dict())
