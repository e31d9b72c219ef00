"""The algorithmic problems as a task of the trainer."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from rich.console import Console

from pyanticip.errors import OptionError
from training.run.launch import Processes
from training.run.module import TrainModule
from training.run.recorder import Recorder
from training.run.task import Run, Task
from training.tasks.algorithmic.batches import Batches
from training.tasks.algorithmic.module import TaskModule, new_model
from training.tasks.algorithmic.options import TaskOptions
from training.tasks.algorithmic.record import TaskRecorder
from training.tasks.algorithmic.starts import choose

AlgorithmicRun = Run[TaskOptions, dict[str, Any]]


class AlgorithmicTask(Task[TaskOptions, dict[str, Any]]):
    """See :class:`~training.run.task.Task`; its data are drawn as they are needed."""

    command: ClassVar = "tasks train"
    form: ClassVar = "pyanticip-task-run"
    version: ClassVar = 1
    options = TaskOptions

    def check(self, options: TaskOptions, world: int) -> None:
        """One process, and a model that can be built."""
        if world > 1:
            raise OptionError(f"tasks train computes in one process, torchrun started {world}")
        new_model(options)

    def open(
        self,
        options: TaskOptions,
        folder: Path,
        config: Mapping[str, Any],
        here: Processes,
        console: Console,
    ) -> dict[str, Any]:
        """What the trials of first weights came to; filled when the model is made."""
        return {}

    def module(self, run: AlgorithmicRun, *, fresh: bool) -> TaskModule:
        """A model with the first weights that were best."""
        self._cpu = time.process_time()
        run.data.update(choose(run.options, run.folder, run.device, quiet=run.quiet))
        return TaskModule(new_model(run.options, start=run.data["start"]), run.options)

    def batches(self, run: AlgorithmicRun, start: int) -> Batches:
        """Drawn from seed and update."""
        return Batches(run.options, start=start)

    def recorder(self, run: AlgorithmicRun, module: TrainModule, batches: Any, start: int) -> TaskRecorder:
        """Judges by the share of examples that are right."""
        return TaskRecorder(run.folder, run.options, start)

    def report(self, run: AlgorithmicRun, record: Recorder, start: int, wall: float) -> dict[str, Any]:
        """What it cost."""
        updates = max(record.step - start, 1)
        return {
            "valid": record.valid,
            "ms_per_update": round(1000 * record.busy / updates, 2),
            "cpu_ms_per_update": round(1000 * record.busy_cpu / updates, 2),
            "wall": round(wall, 2),
            "cpu_seconds": round(time.process_time() - self._cpu, 2),
            "trials": dict(run.data),
        }
