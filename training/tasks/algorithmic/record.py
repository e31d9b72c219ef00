"""What a run writes down: its metrics, its validation, the weights that are kept."""

import math
from pathlib import Path
from typing import Any, ClassVar, Final

from training.run.files import BEST, save_weights
from training.run.recorder import Recorder
from training.tasks.algorithmic import TASKS
from training.tasks.algorithmic.batches import VALID, samples
from training.tasks.algorithmic.decode import all_right
from training.tasks.algorithmic.module import PIECES, TaskModule, fitted, new_model
from training.tasks.algorithmic.options import TaskOptions

KEPT: Final = "step-*.safetensors"
"""In ``checkpoints/``: the weights of every validation once the loss was below :data:`LEARNED`."""

LEARNED: Final = 0.1
"""The loss from which on the paper evaluates."""


def kept(folder: Path) -> list[Path]:
    """The weights that a run has kept, oldest first."""
    return sorted((folder / BEST.parent).glob(KEPT))


class TaskRecorder(Recorder):
    """See :class:`training.run.recorder.Recorder`.

    In a row ``valid_exact`` is the share of examples that are right in every token at the longest training
    length, and ``valid_exact_twice`` at twice that, on samples that are not those of the evaluation.
    """

    columns: ClassVar = (
        "step",
        "lr",
        "reach",
        *PIECES,
        "grad_norm",
        "valid_exact",
        "valid_exact_twice",
        "valid_error",
        "seconds",
    )
    trained: ClassVar = ("total", "wrong")
    shown: ClassVar = "total"
    judged_by: ClassVar = "valid_error"

    options: TaskOptions

    def __init__(self, folder: Path, options: TaskOptions, start: int) -> None:
        super().__init__(folder, options, start)
        task = TASKS[options.task]
        self.lengths = {"valid_exact": options.top, "valid_exact_twice": task.longer(options.top)}
        count = options.data.valid_samples
        self.examples = {
            n: samples(task, n, count, options.schedule.seed, VALID) for n in self.lengths.values()
        }
        self.reader = new_model(options, max(self.lengths.values())).eval()
        self.last_loss = math.inf

    def extras(self, done: int, means: dict[str, float]) -> dict[str, float]:
        """Learning rate and longest length of the last update."""
        self.last_loss = means["total"]
        reach = float(self.options.reach(done - 1))
        return {**super().extras(done, means), "reach": reach, "loss": means["total"]}

    def state_dict(self) -> dict[str, Any]:
        """What the base class keeps, and the last mean loss."""
        return {**super().state_dict(), "last_loss": self.last_loss}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """See :meth:`state_dict`."""
        super().load_state_dict(state_dict)
        self.last_loss = state_dict["last_loss"]

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Drop weights that a killed run kept after its last state."""
        super().on_train_start(trainer, pl_module)
        for file in kept(self.folder):
            if int(file.stem.removeprefix("step-")) > self.start:
                file.unlink()

    def validate(self, module: Any, done: int) -> dict[str, float]:
        """Examples of two lengths; keeps the weights."""
        assert isinstance(module, TaskModule)
        weights = module.model.state_dict()
        self.reader.to(module.device).load_state_dict(fitted(weights, self.reader))
        found = {}
        for name, length in self.lengths.items():
            right = all_right(self.reader, self.examples[length], device=str(module.device))
            found[name] = float(right.float().mean())
        if self.last_loss < LEARNED or done == self.options.schedule.steps:
            save_weights(self.folder / BEST.parent / f"step-{done:06d}.safetensors", weights)
        # The best weights are chosen without looking beyond the training lengths.
        return {**found, "valid_error": 1.0 - found["valid_exact"]}
