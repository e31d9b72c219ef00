"""The task ``forecast``: trains a forecaster on the benchmark's training files."""

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
from training.run.task import Run, Task, check_path_exists, load_weights, without_folders
from training.run.train import train
from training.tasks.forecast.bank import Batches, WindowBank
from training.tasks.forecast.cmu import Take, check_windows, load_split
from training.tasks.forecast.module import ForecastModule, ForecastRecorder
from training.tasks.forecast.options import ForecastOptions

CHECKPOINT: Final = "checkpoint"
REFIT: Final = "refit"
"""Folder of the second run, on all files up to the best step of the first."""


@dataclass(frozen=True)
class Files:
    """The files of a run."""

    training: list[Take]
    validation: list[Take]
    missing: list[str]
    """Names of files that the folder lacks."""
    bank: WindowBank
    """Windows of the training takes."""


ForecastRun = Run[ForecastOptions, Files]


class ForecastTask(Task[ForecastOptions, Files]):
    """See :class:`~training.run.task.Task`."""

    command: ClassVar = "train forecast"
    format_name: ClassVar = "pyanticip-forecast-run"
    version: ClassVar = 1
    options = ForecastOptions
    single_process: ClassVar = True

    def prepare(self, options: ForecastOptions, draft: Path, console: Console) -> dict[str, Any]:
        """Record the names and hashes of the files."""
        return _fingerprint(_read(options))

    def open(
        self,
        options: ForecastOptions,
        folder: Path,
        config: Mapping[str, Any],
        processes: Processes,
        console: Console,
    ) -> Files:
        """Load the files."""
        check_path_exists(folder, options.data.path)
        files = _read(options)
        current = _fingerprint(files)
        stored = {"sha256": current["sha256"], **config}  # older runs have no hashes
        if {**stored, **current} != stored:
            raise OptionError(f"option data.path: the run in {folder} was begun with other files")
        return files

    def module(self, run: ForecastRun, *, fresh: bool) -> ForecastModule:
        """Create the model, normalised with drawn windows."""
        return ForecastModule(run.data.bank, run.options)

    def batches(self, run: ForecastRun, start: int) -> Batches:
        """Windows, drawn after those of the normalisation."""
        return Batches(run.data.bank, run.options, start)

    def recorder(
        self, run: ForecastRun, module: TrainModule, batches: Batches, start: int
    ) -> ForecastRecorder:
        """Validates the averaged weights on the validation clips."""
        return ForecastRecorder(run.folder, run.options, start, module, run.data.validation)

    def report(self, run: ForecastRun, record: Recorder, start: int, wall: float) -> dict[str, Any]:
        """Names of the files."""
        return {**names(run.data), "missing": run.data.missing}

    def finish(self, run: ForecastRun, report: Mapping[str, Any]) -> dict[str, Any]:
        """Optionally train again on all files, and export the checkpoint."""
        options, folder = run.options, run.folder
        result: dict[str, Any] = {"refit": bool(run.data.validation) and options.run.refit}
        if result["refit"]:
            folder = run.folder / REFIT
            all_files = options.replace(validation=0, stop=report["best_step"])
            resume = (folder / CONFIG).is_file()
            refit_report = train(ForecastTask(), all_files, folder, resume=resume, quiet=run.quiet)
            if not refit_report["finished"]:
                return {"finished": False}
            result["trained_on"] = refit_report["trained_on"]
            result["seconds"] = round(report["seconds"] + refit_report["seconds"], 3)
        model = PoseForecaster(options.config())
        load_weights(model, folder, "best")
        training = {"benchmark": "cmu", **without_folders(report, "data.path"), **result}
        save_forecaster(run.folder / CHECKPOINT, model, training=training)
        return result

    def summary_lines(self, out: Path, report: Mapping[str, Any]) -> list[str]:
        """Suggested next commands."""
        folder = Path(report["options"]["data"]["path"])
        data = quote(str(folder))
        if (folder / "train").is_dir() and not (folder / "test").is_dir():
            return [
                f"wrote {out}; {data} has no test files to evaluate it on; cross-validate instead:",
                f"  pyanticip train forecast --data {data} --folds 5 --out FOLDER",
            ]
        return [
            f"wrote {out}; evaluate it with:",
            f"  pyanticip evaluate forecast --data {data} --checkpoint {quote(str(out))}",
        ]


def names(files: Files) -> dict[str, list[str]]:
    """Names of the training and the validation takes."""
    return {
        "trained_on": [take.name for take in files.training],
        "validation": [take.name for take in files.validation],
    }


def _fingerprint(files: Files) -> dict[str, Any]:
    """Names and hashes of the files."""
    takes = (*files.training, *files.validation)
    return {**names(files), "sha256": {take.name: take.digest for take in takes}}


def _read(options: ForecastOptions) -> Files:
    """Load the files of ``data.path`` without those of ``data.leave_out``.

    Raises:
        FormatError: there are none, or one cannot be read.
        OptionError: no file is left for training or validation, one to validate on is too short for a window,
            or one in ``leave_out`` does not exist.
    """
    data = options.data
    takes, missing = load_split(Path(data.path), "train")
    if unknown := {*data.leave_out} - {take.name for take in takes}:
        raise OptionError(f"option data.leave_out: {data.path} has no clip {min(unknown)!r}")
    takes = [take for take in takes if take.name not in data.leave_out]
    validation = [take for take in takes if take.number == data.validation]
    training = [take for take in takes if take.number != data.validation]
    if data.validation and not (validation and training):
        raise OptionError(
            f"option data.validation: expected the number of some of the clips, got {data.validation}"
        )
    check_windows(validation, "option data.validation")
    return Files(training, validation, missing, WindowBank(training, data, options.schedule.seed))
