"""Implementation of the commands ``pyanticip tasks``."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pyanticip.errors import FormatError, OptionError, suggestion
from training.run.settings import seed_list
from training.tasks.algorithmic import TASKS, find
from training.tasks.algorithmic.options import PAPER, POSITIONS, TaskOptions
from training.tasks.algorithmic.runs import study

OWN = ("task", "positions", "seed")
"""Options that are not allowed in ``--set``, as the command line has separate ones for them."""


def task_table() -> list[dict[str, Any]]:
    """The tasks: name, description, unit of the length, longest training length, example."""
    return [
        {
            "name": task.name,
            "asks": task.title,
            "unit": task.unit,
            "longest": task.longest,
            "example": task.shown,
        }
        for task in TASKS.values()
    ]


def show(name: str, length: int | None, count: int, seed: int, *, test: bool) -> list[str]:
    """Draw and check examples of a task, as texts.

    Args:
        name: name of the task.
        length: length of the examples; None: uniform up to the paper's longest training length.
        count: number of examples.
        seed: seed of the examples.
        test: draw from the test distribution, where it differs.
    """
    task = find(name)
    rng = np.random.default_rng(seed)
    texts = []
    for _ in range(count):
        size = int(rng.integers(task.least, task.longest + 1)) if length is None else length
        text = task.text((task.draw_test if test else task.draw)(size, rng))
        task.check(text)
        texts.append(text)
    return texts


def check(name: str, texts: Sequence[str]) -> list[dict[str, Any]]:
    """Check texts; each result has ``right`` and, if it is wrong, ``reason``."""
    task = find(name)
    results: list[dict[str, Any]] = []
    for text in texts:
        try:
            task.check(text)
        except FormatError as error:
            results.append({"text": text, "right": False, "reason": str(error)})
        else:
            results.append({"text": text, "right": True})
    return results


def run(
    out: Path,
    task: str,
    given: Mapping[str, Any],
    *,
    positions: str,
    seeds: str,
    paper: bool = False,
    settings: Sequence[str] = (),
    quiet: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Train with the options of a command line.

    Args:
        out: folder of the runs.
        task: name of the task.
        given: options by name; None means not given.
        positions: comma-separated names, or ``all``.
        seeds: seeds, such as ``0-2`` or ``0,4``.
        paper: start from the paper's sizes and rates.
        settings: further options ``name=value``, or ``model.name=value`` for the model.
        quiet: no progress bars.
        say: called with a line about every finished run.
    """
    find(task)
    names = POSITIONS if positions == "all" else tuple(positions.split(","))
    for name in names:
        if name not in POSITIONS:
            known = f"there are all, {', '.join(POSITIONS)}"
            raise OptionError(f"--positions: unknown {name!r}{suggestion(name, POSITIONS)} ({known})")
    over = TaskOptions.assignments(settings, given)
    for name in OWN:
        table, _, option = TaskOptions.place(name).rpartition(".")
        if option in (over.get(table, {}) if table else over):
            raise OptionError(f"--set: {name} has an option of its own, --{name}{'s' * (name == 'seed')}")
    over["task"] = task
    options = TaskOptions.gather(None, over, under=PAPER if paper else {})
    return study(out, options, names, seed_list(seeds), quiet=quiet, say=say)
