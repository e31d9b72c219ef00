"""Which first weights a run goes on from: several are tried for a few updates, and judged by their training
loss.

Whether cursors find a program or a model learns its strings by heart is decided early, by chance, and shows
in the training loss alone: with all lengths in, the one falls to nothing while the other hardly falls.
"""

import json
import time
from pathlib import Path
from typing import Any, Final

from rich.progress import track

from pyanticip.untrusted import read_json
from training.run.files import write_text
from training.run.launch import Processes
from training.run.loop import Updates
from training.tasks.algorithmic.batches import Batches
from training.tasks.algorithmic.module import TaskModule, new_model
from training.tasks.algorithmic.options import TaskOptions

STARTS: Final = "starts.json"
"""In the folder of a run: what its trials came to."""

LAST_UPDATES: Final = 50
"""A trial is judged by its mean loss over so many updates, the last ones."""


def choose(options: TaskOptions, folder: Path, device: str, *, quiet: bool = True) -> dict[str, Any]:
    """Try first weights until some are good, and write down what each came to; trials that are done are kept.

    All see the same batches, those of the run itself. The run begins anew with the weights that are kept.

    Args:
        options: of the run; ``starts``, ``trial`` and ``trial_loss`` say how many, how long and what is good.
        folder: of the run.
        device: to compute on.
        quiet: no progress bars.

    Returns:
        ``start``: the number of the weights, for :func:`~training.tasks.algorithmic.module.new_model`;
        ``losses``: what each trial ended with; ``cpu_seconds``: what all trials took.
    """
    found: dict[str, Any] = {"start": 0, "losses": [], "cpu_seconds": 0.0}
    if options.start.starts == 1:
        return found
    path = folder / STARTS
    if path.is_file():
        found = read_json(path)
    losses: list[float] = found["losses"]
    while (
        len(losses) < options.start.starts and min(losses, default=float("inf")) >= options.start.trial_loss
    ):
        cpu = time.process_time()
        losses.append(attempt(options, len(losses), device, quiet=quiet))
        spent = round(found["cpu_seconds"] + time.process_time() - cpu, 2)
        found = {"start": losses.index(min(losses)), "losses": losses, "cpu_seconds": spent}
        write_text(path, json.dumps(found, indent=1) + "\n")
    return found


def chosen(folder: Path) -> int:
    """The number of the first weights that the run in a folder went on from."""
    path = folder / STARTS
    return int(read_json(path)["start"]) if path.is_file() else 0


def attempt(options: TaskOptions, start: int, device: str, *, quiet: bool = True) -> float:
    """The first ``trial`` updates of a run from these first weights: the mean cross-entropy of the last."""
    module = TaskModule(new_model(options, start=start), options)
    updates, batches, losses = Updates(module, Processes(), device), Batches(options), []
    said = f"start {start + 1} of at most {options.start.starts}"
    for step in track(range(options.start.trial), said, disable=quiet):
        losses.append(float(updates.part(batches.update(step))[0]))
    last = losses[-LAST_UPDATES:]
    return sum(last) / len(last)
