"""What ``pyanticip tasks`` does with what it is given."""

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
"""Options with a place of their own on the command line."""


def described() -> list[dict[str, Any]]:
    """The tasks: name, what is asked for, what the length counts, the longest training length, an example."""
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
    """Examples of a task as texts, each checked.

    Args:
        name: of the task.
        length: of the examples; None: lengths up to the paper's longest, drawn evenly.
        count: how many.
        seed: of the examples.
        test: from the test's source, where training and test have their own.
    """
    task = find(name)
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        size = int(rng.integers(task.least, task.longest + 1)) if length is None else length
        text = task.text((task.draw_test if test else task.draw)(size, rng))
        task.check(text)
        found.append(text)
    return found


def check(name: str, texts: Sequence[str]) -> list[dict[str, Any]]:
    """Judge texts: each with ``right`` and, where it is not, ``reason``."""
    task = find(name)
    found: list[dict[str, Any]] = []
    for text in texts:
        try:
            task.check(text)
        except FormatError as error:
            found.append({"text": text, "right": False, "reason": str(error)})
        else:
            found.append({"text": text, "right": True})
    return found


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
        task: its name.
        given: options by name; None stands for one that is not given.
        positions: names between commas, or ``all``.
        seeds: such as ``0-2`` or ``0,4``.
        paper: begin from the paper's sizes and rates.
        settings: ``name=value`` of further options, ``model.name=value`` of the model's.
        quiet: no progress bars.
        say: told about every run that is finished.
    """
    find(task)
    names = POSITIONS if positions == "all" else tuple(positions.split(","))
    for name in names:
        if name not in POSITIONS:
            known = f"there are all, {', '.join(POSITIONS)}"
            raise OptionError(f"--positions: unknown {name!r}{suggestion(name, POSITIONS)} ({known})")
    for name in (name for name in OWN if any(each.startswith(f"{name}=") for each in settings)):
        raise OptionError(f"--set: {name} has an option of its own, --{name}{'s' * (name == 'seed')}")
    over = {**TaskOptions.assignments(settings, given), "task": task}
    options = TaskOptions.gather(None, over, under=PAPER if paper else {})
    return study(out, options, names, seed_list(seeds), quiet=quiet, say=say)
