"""The training step and the validation of a forecaster."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import torch
from torch import Tensor

from pyanticip.models.forecast.forecaster import PoseForecaster
from training.run.module import TrainModule, decay_groups
from training.run.recorder import AveragingRecorder
from training.tasks.forecast.bank import Batch, WindowBank, joint_weights
from training.tasks.forecast.cmu import OBSERVED, Take
from training.tasks.forecast.evaluate import average_curve, predictor
from training.tasks.forecast.metrics import hold
from training.tasks.forecast.options import ForecastOptions

UNIT: Final = 100.0
"""The network's unit of length, in the tables' "mm"."""

SCORED_FRAMES: Final = (7, 9, 13, 24)
"""Target frames of the validation score: nominal 320 ms and later."""


class ForecastModule(TrainModule):
    """Creates and trains a forecaster, normalised to the windows of a bank.

    Args:
        bank: source of 12 draws of 512 windows for the normalisation.
        options: options of the run.
    """

    model: PoseForecaster
    options: ForecastOptions

    def __init__(self, bank: WindowBank, options: ForecastOptions) -> None:
        with torch.random.fork_rng():
            torch.manual_seed(options.schedule.seed)
            model = PoseForecaster(options.config())
        super().__init__(model, options)
        model.mixed = options.run.precision == "bf16"
        model.fit_normalisation(torch.cat([bank.batch(512) for _ in range(8)]), UNIT)
        windows = torch.cat([bank.batch(512) for _ in range(4)])
        moved = (windows[:, OBSERVED:] - windows[:, OBSERVED - 1 : OBSERVED]).norm(dim=-1)
        self.joint_weights = joint_weights()
        self.levels = torch.mean(moved @ self.joint_weights, 0)
        """Error (25,) of zero velocity at each target frame, in the tables' "mm"."""

    def training_step(self, batch: Batch) -> dict[str, Tensor]:
        """The metric at every target frame, relative to the error of zero velocity there."""
        # The model decides itself which parts are computed in half precision.
        with torch.autocast(self.device.type, enabled=False):
            guess = self.model.one_view(batch.windows[:, :OBSERVED])
            # The square root is smoothed below half a "mm", where its slope would jump.
            distance = ((guess - batch.windows[:, OBSERVED:]).square().sum(-1) + 0.25).sqrt()
            loss = torch.mean((distance @ self.joint_weights) / self.levels)
        return {"loss": loss, "parts": loss.detach()[None]}

    def groups(self) -> list[dict[str, Any]]:
        """Parameter groups: weight decay on matrices only."""
        return decay_groups(self.model.parameters(), self.options.schedule.weight_decay)


class ForecastRecorder(AveragingRecorder):
    """See :class:`training.run.recorder.AveragingRecorder`.

    Args:
        folder: folder of the run.
        options: options of the run.
        start: update that the run starts or resumes from.
        module: the trained module.
        held_out: takes to validate on; without any, the last weights are the best.
    """

    columns = ("step", "lr", "total", "grad_norm", "valid_ratio", "seconds")
    loss_names = ("total",)
    displayed_loss: ClassVar = "total"
    selection_metric: ClassVar = "valid_ratio"
    options: ForecastOptions

    def __init__(
        self,
        folder: Path,
        options: ForecastOptions,
        start: int,
        module: TrainModule,
        held_out: Sequence[Take],
    ) -> None:
        super().__init__(folder, options, start, module)
        self.held_out = held_out
        self.judge = PoseForecaster(options.config()).eval()

    def validate(self, module: Any, done: int) -> dict[str, float]:
        """Validate the averaged weights on the held-out takes."""
        if not self.held_out:
            return {}
        self.judge.load_state_dict(self.averaged(module))
        return {"valid_ratio": validation_score(self.judge, self.held_out)}

    def should_stop(self) -> bool:
        """Whether the step at which the run is to stop has been reached."""
        stop = self.options.schedule.stop
        return stop is not None and self.step >= stop


def validation_score(model: PoseForecaster, takes: Sequence[Take]) -> float:
    """Mean over :data:`SCORED_FRAMES` of the ratio to zero velocity, both averaged over takes and actions."""
    ratio = average_curve(takes, predictor(model)) / average_curve(takes, hold)
    return float(ratio[list(SCORED_FRAMES)].mean())
