"""A recorder that validates and saves an exponential average of the weights."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from training.run.files import BEST, save_weights
from training.run.module import TrainModule
from training.run.options import AveragedScheduleOptions, TrainOptions
from training.run.recorder import Recorder


class AveragingRecorder(Recorder):
    """A :class:`~training.run.recorder.Recorder` that saves the exponential average of the weights.

    Args:
        folder: the run's folder.
        options: the run's options.
        start: update at which the run starts or resumes.
        module: the module in training.
    """

    def __init__(self, folder: Path, options: TrainOptions, start: int, module: TrainModule) -> None:
        super().__init__(folder, options, start)
        self.average = {name: value.detach().clone() for name, value in module.model.named_parameters()}

    def state_dict(self) -> dict[str, Any]:
        """The recorder's state and the averaged weights."""
        return {**super().state_dict(), "average": {name: v.cpu() for name, v in self.average.items()}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """See :meth:`state_dict`."""
        super().load_state_dict(state_dict)
        self.average = {name: value.clone() for name, value in state_dict["average"].items()}

    @torch.no_grad()
    def after_update(self, module: Any, done: int, batch: Any) -> None:
        """Update the average."""
        schedule = self.options.schedule
        assert isinstance(schedule, AveragedScheduleOptions)
        last = {name: value.detach() for name, value in module.model.named_parameters()}
        self.average = {name: value.to(last[name].device) for name, value in self.average.items()}
        torch._foreach_lerp_(
            list(self.average.values()), list(last.values()), 1.0 - schedule.average_decay(done)
        )

    def averaged(self, module: Any) -> dict[str, Tensor]:
        """The model's state with the averaged weights in place of the last ones, on the CPU."""
        state = module.model.state_dict()
        return {name: self.average.get(name, value).detach().cpu() for name, value in state.items()}

    def save_best(self, module: Any) -> None:
        """Replace the run's best weights by the current average."""
        save_weights(self.folder / BEST, self.averaged(module))
