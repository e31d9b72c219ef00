"""The task ``algorithmic``: trains a model on an algorithmic problem."""

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

from rich.console import Console

from training.run.files import BEST, save_weights
from training.run.launch import Processes
from training.run.module import TrainModule
from training.run.recorder import Recorder
from training.run.task import Run, Task
from training.tasks.algorithmic import TASKS
from training.tasks.algorithmic.batches import VALID, Batches, exact_matches, samples
from training.tasks.algorithmic.module import PIECES, TaskModule, fitted, new_model
from training.tasks.algorithmic.options import TaskOptions

KEPT: Final = "step-*.safetensors"
"""Files in ``checkpoints/``: weights of every validation after the loss fell below :data:`MAX_LOSS`."""

MAX_LOSS: Final = 0.1
"""Loss below which weights are saved, as the paper evaluates from then on."""


def kept_weights(folder: Path) -> list[Path]:
    """Saved weights of a run, oldest first."""
    return sorted((folder / BEST.parent).glob(KEPT), key=step_of)


def step_of(file: Path) -> int:
    """The update after which a file of weights was saved."""
    return int(file.stem.removeprefix("step-"))


class TaskRecorder(Recorder):
    """See :class:`training.run.recorder.Recorder`.

    Column ``valid_exact`` is the share of exact matches at the longest training length, ``valid_exact_twice``
    at twice that, on other samples than the evaluation's.
    """

    columns = (
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
    loss_names = ("total", "wrong")
    displayed_loss: ClassVar = "total"
    selection_metric: ClassVar = "valid_error"

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

    def extra_columns(self, done: int, means: dict[str, float]) -> dict[str, float]:
        """Learning rate, and longest length of the last update."""
        self.last_loss = means["total"]
        reach = float(self.options.reach(done - 1))
        return {**super().extra_columns(done, means), "reach": reach, "loss": means["total"]}

    def state_dict(self) -> dict[str, Any]:
        """State of the base class, and the last mean loss."""
        return {**super().state_dict(), "last_loss": self.last_loss}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """See :meth:`state_dict`."""
        super().load_state_dict(state_dict)
        self.last_loss = state_dict["last_loss"]

    def begin(self) -> None:
        """Also remove weights that a killed run saved after its last state."""
        super().begin()
        for file in kept_weights(self.folder):
            if step_of(file) > self.start:
                file.unlink()

    def validate(self, module: Any, done: int) -> dict[str, float]:
        """Exact matches at two lengths; also saves the weights."""
        assert isinstance(module, TaskModule)
        weights = module.model.state_dict()
        self.reader.to(module.device).load_state_dict(fitted(weights, self.reader))
        shares = {}
        for name, length in self.lengths.items():
            right = exact_matches(self.reader, self.examples[length], device=str(module.device))
            shares[name] = float(right.float().mean())
        if self.last_loss < MAX_LOSS or done == self.options.schedule.steps:
            save_weights(self.folder / BEST.parent / f"step-{done:06d}.safetensors", weights)
        # The best weights are selected at training lengths only.
        return {**shares, "valid_error": 1.0 - shares["valid_exact"]}


AlgorithmicRun = Run[TaskOptions, None]


class AlgorithmicTask(Task[TaskOptions, None]):
    """See :class:`~training.run.task.Task`; examples are drawn as needed."""

    command: ClassVar = "tasks train"
    format_name: ClassVar = "pyanticip-task-run"
    version: ClassVar = 1
    options = TaskOptions
    single_process: ClassVar = True

    def check(self, options: TaskOptions, world: int) -> None:
        """Check that the model can be built."""
        new_model(options)

    def open(
        self,
        options: TaskOptions,
        folder: Path,
        config: Mapping[str, Any],
        processes: Processes,
        console: Console,
    ) -> None:
        """No data to open: examples are drawn."""

    def module(self, run: AlgorithmicRun, *, fresh: bool) -> TaskModule:
        """Create the model."""
        self._cpu = time.process_time()
        return TaskModule(new_model(run.options), run.options)

    def batches(self, run: AlgorithmicRun, start: int) -> Batches:
        """Batches drawn from seed and update."""
        return Batches(run.options, start=start)

    def recorder(self, run: AlgorithmicRun, module: TrainModule, batches: Any, start: int) -> TaskRecorder:
        """Validates by the share of exact matches."""
        return TaskRecorder(run.folder, run.options, start)

    def report(self, run: AlgorithmicRun, record: Recorder, start: int, wall: float) -> dict[str, Any]:
        """Cost of the training."""
        updates = max(record.step - start, 1)
        return {
            "valid": record.valid,
            "ms_per_update": round(1000 * record.busy / updates, 2),
            "cpu_ms_per_update": round(1000 * record.busy_cpu / updates, 2),
            "wall": round(wall, 2),
            "cpu_seconds": round(time.process_time() - self._cpu, 2),
        }
