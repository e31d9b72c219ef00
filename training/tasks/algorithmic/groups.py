"""Runs of tasks that differ in their seed alone, gathered for tables and pictures."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyanticip.errors import FormatError
from training.tasks.algorithmic import TASKS
from training.tasks.algorithmic.evaluate import last, read, top_three
from training.tasks.algorithmic.options import CURSORS, POSITIONS, TaskOptions
from training.tasks.algorithmic.runs import TaskRun, find_runs

UNUSED: Final[Mapping[str, Any]] = {"habits": "drawn", "sparse": 0.0, "starts": 1}
"""Values of options that go without saying in a label."""


@dataclass(frozen=True)
class Group:
    """Runs that differ in their seed alone: their curves, and what they cost."""

    task: str
    longest: int
    positions: str
    variant: str
    """Options by which these runs differ from others of the same positions; empty where there are none."""
    runs: tuple[TaskRun, ...]
    pages: tuple[dict[str, Any], ...]
    reports: tuple[dict[str, Any], ...]

    @property
    def label(self) -> str:
        """Positions, and what is special about them here."""
        return f"{self.positions} ({self.variant})" if self.variant else self.positions

    def shares(self, top: bool) -> dict[int, list[float]]:
        """By length the share of every seed; of the last weights, or of the best three."""
        found: dict[int, list[float]] = {}
        for page in self.pages:
            for length, share in (top_three if top else last)(page).items():
                found.setdefault(length, []).append(share)
        return dict(sorted(found.items()))

    def cpu(self) -> list[float]:
        """Processor seconds of all updates of every seed, those of trials included."""
        updates = [
            page["cpu_ms_per_update"] * self.runs[0].options.schedule.steps / 1000 for page in self.reports
        ]
        trials = [page.get("trials", {}).get("cpu_seconds", 0.0) for page in self.reports]
        return [sum(pair) for pair in zip(updates, trials, strict=True)]


def gather(places: list[Path]) -> list[Group]:
    """Evaluated runs by task, training length, positions and whatever else differs but the seed.

    Raises:
        FormatError: none of the runs was evaluated, or two of them are the same.
    """
    order = {name: at for at, name in enumerate((*TASKS, *POSITIONS))}
    families: dict[tuple[str, int, str], dict[str, list[TaskRun]]] = {}
    for run in find_runs(places):
        if run.finished and read(run):
            o = run.options
            special = settings(o)
            family = families.setdefault((o.task, o.top, o.positions), {})
            same = family.setdefault(special, [])
            if any(other.options.schedule.seed == o.schedule.seed for other in same):
                raise FormatError(f"{run.folder}: {same[0].folder.parent} has the same run; give one of them")
            same.append(run)
    if not families:
        raise FormatError(
            f"{', '.join(map(str, places))}: no run is evaluated; see: pyanticip tasks evaluate"
        )
    found = []
    for (task, longest, positions), family in sorted(
        families.items(), key=lambda item: (order[item[0][0]], item[0][1], order[item[0][2]])
    ):
        for _, runs in sorted(family.items()):
            runs.sort(key=lambda run: run.options.schedule.seed)
            pages, reports = tuple(read(run) for run in runs), tuple(run.report() for run in runs)
            variant = _special(runs[0], [others[0] for others in family.values()])
            found.append(Group(task, longest, positions, variant, tuple(runs), pages, reports))
    return found


def _special(run: TaskRun, family: Sequence[TaskRun]) -> str:
    """The options in which a run differs from any of its family, as ``name value``, but for those of
    :data:`UNUSED`."""
    mine = run.options.flat()
    names = {n for other in family for n in run.options.differences(other.options)} - {"schedule.seed"}
    named = {name.rpartition(".")[2]: mine.get(name) for name in names}
    return ", ".join(f"{n} {plain(v)}" for n, v in sorted(named.items()) if v != UNUSED.get(n))


def settings(options: TaskOptions) -> str:
    """The options that differ from the defaults, as the command line takes them."""
    named = {
        "data.longest": "longest",
        "schedule.steps": "steps",
        "schedule.batch": "batch",
        "schedule.peak_lr": "lr",
    }
    text = ""
    for name, (value, _) in options.differences(TaskOptions(task=options.task)).items():
        table, _, bare = name.rpartition(".")
        if bare in ("positions", "seed") or (bare in CURSORS and options.positions != "prism"):
            continue
        if name in named:
            text += f" --{named[name]} {value}"
        else:
            text += f" --set {name if table == 'model' else bare}={plain(value)}"
    return text


def plain(value: Any) -> str:
    """A value as the command line takes it."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
