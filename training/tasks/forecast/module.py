"""One update of a forecaster, and what judges it on its way."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import torch
from torch import Tensor

from pyanticip.models.forecast.forecaster import PoseForecaster
from training.run.average import AveragingRecorder
from training.run.module import TrainModule
from training.tasks.forecast.bank import Batch, WindowBank, joint_weights
from training.tasks.forecast.cmu import OBSERVED, Take
from training.tasks.forecast.evaluate import counted_curves, predictor
from training.tasks.forecast.metrics import hold
from training.tasks.forecast.options import ForecastOptions

UNIT: Final = 100.0
"""The network's unit of length in the tables' "mm"."""

JUDGED: Final = (7, 9, 13, 24)
"""Target frames by which runs are compared: nominal 320 ms and later."""


class ForecastModule(TrainModule):
    """A new forecaster to be trained, normalised to the windows of a bank.

    Args:
        bank: the first 12 draws of 512 windows are taken from it.
        options: of the run.
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
        self.weigh = joint_weights()
        self.levels = torch.mean(moved @ self.weigh, 0)
        """Zero velocity's error (25,) at each target frame, "mm"."""

    def training_step(self, batch: Batch) -> dict[str, Tensor]:
        """The metric itself at every target frame, each frame relative to how far joints go by then."""
        # The model itself knows which of its parts may be computed in half precision.
        with torch.autocast(self.device.type, enabled=False):
            guess = self.model.one_view(batch.windows[:, :OBSERVED])
            # The root is rounded off below half a "mm", where its slope would jump.
            apart = ((guess - batch.windows[:, OBSERVED:]).square().sum(-1) + 0.25).sqrt()
            loss = torch.mean((apart @ self.weigh) / self.levels)
        return {"loss": loss, "parts": loss.detach()[None]}

    def groups(self) -> list[dict[str, Any]]:
        """Weight decay on matrices."""
        weights = list(self.model.parameters())
        return [
            {
                "params": [p for p in weights if p.ndim > 1],
                "weight_decay": self.options.schedule.weight_decay,
            },
            {"params": [p for p in weights if p.ndim <= 1], "weight_decay": 0.0},
        ]


class ForecastRecorder(AveragingRecorder):
    """See :class:`training.run.average.AveragingRecorder`.

    Args:
        folder: where to write.
        options: of the run.
        start: update the run goes on from.
        module: what is trained.
        held: takes to judge by; without any the last weights are the best.
    """

    columns = ("step", "lr", "total", "grad_norm", "valid_ratio", "seconds")
    trained = ("total",)
    shown: ClassVar = "total"
    judged_by: ClassVar = "valid_ratio"
    options: ForecastOptions

    def __init__(
        self, folder: Path, options: ForecastOptions, start: int, module: TrainModule, held: Sequence[Take]
    ) -> None:
        super().__init__(folder, options, start, module)
        self.held = held
        self.judge = PoseForecaster(options.config()).eval()

    def validate(self, module: Any, done: int) -> dict[str, float]:
        """The averaged weights on the takes that were held out."""
        if not self.held:
            return {}
        self.judge.load_state_dict(self.averaged(module))
        return {"valid_ratio": validation_score(self.judge, self.held)}

    def enough(self) -> bool:
        """Whether the step is reached at which the run shall end."""
        stop = self.options.schedule.stop
        return stop is not None and self.step >= stop


def validation_score(model: PoseForecaster, takes: Sequence[Take]) -> float:
    """Mean over :data:`JUDGED` of the ratio to zero velocity, both averaged over takes and actions."""
    own = np.mean(list(counted_curves(takes, predictor(model)).values()), axis=0)
    zero = np.mean(list(counted_curves(takes, hold).values()), axis=0)
    return float((own / zero)[list(JUDGED)].mean())
