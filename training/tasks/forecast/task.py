"""The forecaster as a task of the trainer: from the benchmark's training files to a checkpoint."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any, ClassVar, Final

from rich.console import Console

from pyanticip.errors import OptionError
from pyanticip.models.forecast.forecaster import PoseForecaster, save_forecaster
from training.run.files import CONFIG
from training.run.launch import Processes
from training.run.module import TrainModule
from training.run.recorder import Recorder
from training.run.task import Run, Task, check_there, load_weights
from training.run.train import train
from training.tasks.forecast.bank import Batches, WindowBank
from training.tasks.forecast.cmu import Take, load_split
from training.tasks.forecast.module import ForecastModule, ForecastRecorder
from training.tasks.forecast.options import ForecastOptions

CHECKPOINT: Final = "checkpoint"
REFIT: Final = "refit"
"""Folder of the second run, on all files up to the step that was best in the first."""


@dataclass(frozen=True)
class Files:
    """The training files of a run: those it learns from, as a ``bank`` of windows too, those it is judged by
    on its way, and the names of those that the folder lacks."""

    kept: list[Take]
    held: list[Take]
    missing: list[str]
    bank: WindowBank


ForecastRun = Run[ForecastOptions, Files]


class ForecastTask(Task[ForecastOptions, Files]):
    """See :class:`~training.run.task.Task`."""

    command: ClassVar = "train forecast"
    form: ClassVar = "pyanticip-forecast-run"
    version: ClassVar = 1
    options = ForecastOptions

    def check(self, options: ForecastOptions, world: int) -> None:
        """One process."""
        if world > 1:
            raise OptionError(f"train forecast computes in one process, torchrun started {world}")

    def begin(self, options: ForecastOptions, draft: Path, console: Console) -> dict[str, Any]:
        """The names of the files, and their hashes."""
        return _noted(_read(options))

    def open(
        self,
        options: ForecastOptions,
        folder: Path,
        config: Mapping[str, Any],
        here: Processes,
        console: Console,
    ) -> Files:
        """The files themselves."""
        check_there(folder, options.data.path)
        files = _read(options)
        found = _noted(files)
        begun = {"sha256": found["sha256"], **config}  # older runs kept no hashes
        if {**begun, **found} != begun:
            raise OptionError(f"option data.path: the run in {folder} was begun with other files")
        return files

    def module(self, run: ForecastRun, *, fresh: bool) -> ForecastModule:
        """A new model with the statistics of drawn windows."""
        return ForecastModule(run.data.bank, run.options)

    def batches(self, run: ForecastRun, start: int) -> Batches:
        """Windows, drawn after those of the statistics."""
        return Batches(run.data.bank, run.options, start)

    def recorder(
        self, run: ForecastRun, module: TrainModule, batches: Batches, start: int
    ) -> ForecastRecorder:
        """Judges the averaged weights on the clips held out."""
        return ForecastRecorder(run.folder, run.options, start, module, run.data.held)

    def report(self, run: ForecastRun, record: Recorder, start: int, wall: float) -> dict[str, Any]:
        """The files."""
        return {**names(run.data), "missing": run.data.missing}

    def finish(self, run: ForecastRun, report: Mapping[str, Any]) -> dict[str, Any]:
        """Train once more on all files where that is asked for, and write the checkpoint."""
        options, folder = run.options, run.folder
        found: dict[str, Any] = {"refit": bool(run.data.held) and options.run.refit}
        if found["refit"]:
            folder = run.folder / REFIT
            whole = options.but(validation=0, stop=report["best_step"])
            again = train(ForecastTask(), whole, folder, resume=(folder / CONFIG).is_file(), quiet=run.quiet)
            if not again["finished"]:
                return {"finished": False}
            found["trained_on"] = again["trained_on"]
            found["seconds"] = round(report["seconds"] + again["seconds"], 3)
        model = PoseForecaster(options.config())
        load_weights(model, folder, "best")
        noted = {"benchmark": "cmu", **report, **found}
        save_forecaster(run.folder / CHECKPOINT, model, training=noted)
        return found

    def lines(self, out: Path, report: Mapping[str, Any]) -> list[str]:
        """What to do next."""
        folder = Path(report["options"]["data"]["path"])
        data = quote(str(folder))
        if (folder / "train").is_dir() and not (folder / "test").is_dir():
            return [
                f"wrote {out}; {data} has no test files to judge it by; left-out clips judge its kind:",
                f"  pyanticip train forecast --data {data} --folds 5 --out FOLDER",
            ]
        return [
            f"wrote {out}; judge it with:",
            f"  pyanticip evaluate forecast --data {data} --checkpoint {quote(str(out))}",
        ]


def names(files: Files) -> dict[str, list[str]]:
    """The names of the takes that a run learns from, and of those that it is judged by."""
    return {
        "trained_on": [take.name for take in files.kept],
        "validation": [take.name for take in files.held],
    }


def _noted(files: Files) -> dict[str, Any]:
    """What a run keeps of its files."""
    return {**names(files), "sha256": {take.name: take.digest for take in (*files.kept, *files.held)}}


def _read(options: ForecastOptions) -> Files:
    """The files of ``data.path`` without those of ``data.leave_out``.

    Raises:
        FormatError: there are none, or one cannot be read.
        OptionError: none are left to learn from, or to judge by, or one to leave out is not there.
    """
    data = options.data
    takes, missing = load_split(Path(data.path), "train")
    if unknown := {*data.leave_out} - {take.name for take in takes}:
        raise OptionError(f"option data.leave_out: {data.path} has no clip {min(unknown)!r}")
    takes = [take for take in takes if take.name not in data.leave_out]
    held = [take for take in takes if take.number == data.validation]
    kept = [take for take in takes if take.number != data.validation]
    if data.validation and not (held and kept):
        raise OptionError(
            f"option data.validation: expected the number of some of the clips, given {data.validation}"
        )
    return Files(kept, held, missing, WindowBank(kept, data, options.schedule.seed))
