"""``pyanticip tasks report``: tables and pictures of evaluated runs, put into their page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from pyanticip.motion.atomic import write_atomic
from pyanticip.system import quoted
from training.report.tables import place, spread, table
from training.tasks.algorithmic import TASKS, find, plots
from training.tasks.algorithmic.plots import Group, gather, settings
from training.tasks.algorithmic.runs import TaskRun

PAGE: Final = "page.md"
BEGIN: Final = "<!-- tables: written by `pyanticip tasks report`, do not edit -->"
END: Final = "<!-- end of tables -->"

FIRM: Final = 0.95
"""Exact matches from which on a length counts as mastered."""


@dataclass(frozen=True)
class Again:
    """What the command was given: runs or folders of them, the page, the tasks of one table."""

    places: Sequence[Path]
    out: Path | None
    brief: Sequence[str]

    @property
    def where(self) -> str:
        """The places, as they are typed."""
        return " ".join(quoted(str(place)) for place in self.places)

    @property
    def report(self) -> str:
        """The command line."""
        out = "" if self.out is None else f" --out {quoted(str(self.out))}"
        few = f" --brief {','.join(self.brief)}" if self.brief else ""
        return f"pyanticip tasks report {self.where}{out}{few}"


def report(
    places: list[Path], out: Path | None, *, counters: bool = True, brief: Sequence[str] = ()
) -> dict[str, Any]:
    """Tables of all evaluated runs; with ``out`` also pictures, and the page that shows them.

    Args:
        places: runs, or folders of runs.
        out: folder of the page; what stands outside its marks is kept.
        counters: whether the cursors of PRISM models are drawn before and after training.
        brief: tasks that share one table at the end, without pictures.

    Returns:
        ``tables`` as Markdown; ``groups``: the figures.
    """
    again = Again(places, out, brief)
    short = {find(name).name for name in brief}
    groups = gather(places)
    text, pictures = _sections(
        [group for group in groups if group.task not in short], again, counters=counters and out is not None
    )
    rest = [group for group in groups if group.task in short]
    if rest:
        text += "\n" + _brief(rest, again)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        for name, picture in pictures.items():
            write_atomic(out / name, picture)
        place(out / PAGE, "Length extrapolation with PRISM positions", text, BEGIN, END)
    return {"tables": text, "groups": [_plain(group) for group in groups]}


def _sections(groups: Sequence[Group], again: Again, *, counters: bool) -> tuple[str, dict[str, bytes]]:
    lines: list[str] = []
    pictures: dict[str, bytes] = {}
    for task, longest in dict.fromkeys((group.task, group.longest) for group in groups):
        mine = [group for group in groups if (group.task, group.longest) == (task, longest)]
        lines += [f"## {task}, trained up to {longest} {TASKS[task].unit}", ""]
        stem = f"{task}-{longest}"
        pictures[f"{stem}.png"] = plots.curves(mine)
        lines += [f"![Exact matches over length]({stem}.png)", ""]
        for top, title in ((False, "Last weights"), (True, "Mean of the three best weights at each length")):
            if not any(group.shares(top) for group in mine):
                continue
            lines += [f"{title}, % exact (mean ± standard deviation over seeds):", "", _table(mine, top)]
        if counters:
            prism = [group for group in mine if group.positions == "prism"]
            for number, group in enumerate(prism, 1):
                drawn = plots.counters(group.runs[0])
                if drawn is not None:
                    name = f"{stem}-cursors{number if len(prism) > 1 else ''}.png"
                    pictures[name] = drawn
                    lines += [
                        f"![Cursors of {group.label}, before and after training]({name})",
                        "",
                    ]
        lines += [_cost(mine), train_and_judge(mine, again), ""]
    return "\n".join(lines), pictures


def _brief(groups: Sequence[Group], again: Again) -> str:
    """One table of several tasks: every curve in a cell."""
    head = [
        "task",
        "positions",
        "seeds",
        "trained up to",
        "updates",
        "batch",
        "rate",
        "CPU s",
        "% exact by length",
    ]
    rows = []
    for group in groups:
        option = group.runs[0].options.schedule
        shares = group.shares(False)
        rows.append(
            [
                group.task,
                group.label,
                str(len(group.runs)),
                f"{group.longest} {TASKS[group.task].unit}",
                str(option.steps),
                str(option.batch),
                f"{option.peak_lr:g}",
                spread(group.cpu(), 0),
                ", ".join(f"{n}: {spread([100 * v for v in values], 1)}" for n, values in shares.items()),
            ]
        )
    title = "## The other tasks\n\nLast weights (mean ± standard deviation over seeds):\n\n"
    return f"{title}{table(head, rows)}\n{train_and_judge(groups, again)}\n"


def _table(groups: Sequence[Group], top: bool) -> str:
    lengths = sorted({n for group in groups for n in group.shares(top)})
    head = ["positions", "seeds", *(str(n) for n in lengths), f"holds {100 * FIRM:.0f} % up to"]
    rows = []
    for group in groups:
        shares = group.shares(top)
        if not shares:
            continue
        most = max(map(len, shares.values()))
        cells = [_cell(shares.get(n, []), most) for n in lengths]
        rows.append([group.label, str(most), *cells, _holds(shares)])
    return table(head, rows)


def _cell(values: Sequence[float], most: int) -> str:
    """Mean and standard deviation; of how many seeds, where that is not of all."""
    if not values:
        return "-"
    text = spread([100 * v for v in values], 1)
    return text if len(values) == most else f"{text} ({len(values)} of {most})"


def _holds(shares: Mapping[int, Sequence[float]]) -> str:
    """The longest measured length up to which every measured one is mastered in the mean of the seeds."""
    held = 0
    for length, values in shares.items():
        if np.mean(values) < FIRM:
            break
        held = length
    return str(held) if held else "none"


def _cost(groups: Sequence[Group]) -> str:
    rows = []
    for group in groups:
        option = group.runs[0].options.schedule
        rows.append(
            [
                group.label,
                str(group.reports[0]["parameters"]),
                str(option.steps),
                str(option.batch),
                f"{option.peak_lr:g}",
                spread([r["cpu_ms_per_update"] for r in group.reports], 1),
                spread(group.cpu(), 0),
            ]
        )
    head = ["positions", "parameters", "updates", "batch", "rate", "CPU ms an update", "CPU s of all updates"]
    return "What the runs are, and cost (processor time of one thread):\n\n" + table(head, rows)


def _plain(group: Group) -> dict[str, Any]:
    return {
        "task": group.task,
        "longest": group.longest,
        "positions": group.positions,
        "variant": group.variant,
        "seeds": [run.options.schedule.seed for run in group.runs],
        "last": {str(n): values for n, values in group.shares(False).items()},
        "top_three": {str(n): values for n, values in group.shares(True).items()},
        "parameters": group.reports[0]["parameters"],
        "cpu_ms_per_update": [report["cpu_ms_per_update"] for report in group.reports],
    }


def train_and_judge(groups: Sequence[Group], again: Again) -> str:
    """A block of the commands that train these groups, measure them and write their tables.

    Runs of one folder that differ only in their positions are trained by one command.
    """
    made: dict[tuple[str, str, Path], list[TaskRun]] = {}
    for group in groups:
        for run in group.runs:
            key = (group.task, settings(run.options), run.folder.parent)
            made.setdefault(key, []).append(run)
    lines = ["```"]
    for (task, special, folder), runs in made.items():
        positions = dict.fromkeys(run.options.positions for run in runs)
        seeds = sorted({run.options.schedule.seed for run in runs})
        lines.append(
            f"pyanticip tasks train --out {quoted(str(folder))} --task {task} --positions "
            f"{','.join(positions)} --seeds {','.join(map(str, seeds))}{special}"
        )
    one_task = len({group.task for group in groups}) == 1
    judged: dict[str, None] = {}
    for group in groups:
        page = group.pages[0]
        counts = sorted(set(page["samples"].values()), reverse=True)
        far = f" --long-samples {counts[-1]}" if len(counts) > 1 else ""
        homes = dict.fromkeys(quoted(str(run.folder.parent)) for run in group.runs)
        where = again.where if one_task else " ".join(f"{home}/{group.task}-*" for home in homes)
        most = max(len(p["curves"]) for g in groups if one_task or g.task == group.task for p in g.pages)
        judged[
            f"pyanticip tasks evaluate {where} --samples {counts[0]}{far} --seed {page['seed']} "
            f"--lengths {','.join(str(n) for n in group.shares(False))} --checkpoints {most}"
        ] = None
    return "\n".join([*lines, *judged, again.report, "```"])
