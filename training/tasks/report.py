"""``pyanticip tasks report``: tables and pictures of evaluated runs, put into their page."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from pyanticip.errors import FormatError
from training.runs.files import write_bytes
from training.study.tables import place, spread, table
from training.tasks import plots
from training.tasks.catalog import TASKS
from training.tasks.evaluate import last, read, top_three
from training.tasks.folder import Run, find_runs
from training.tasks.options import POSITIONS

PAGE: Final = "prism-tasks.md"
PICTURES: Final = "prism-tasks"
BEGIN: Final = "<!-- tables: written by `pyanticip tasks report`, do not edit -->"
END: Final = "<!-- end of tables -->"

FIRM: Final = 0.95
"""Exact matches from which on a length counts as mastered."""


@dataclass(frozen=True)
class Group:
    """Runs that differ in their seed alone: their curves, and what they cost."""

    task: str
    longest: int
    positions: str
    variant: str
    """Options by which these runs differ from others of the same positions; empty where there are none."""
    runs: tuple[Run, ...]
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


def gather(places: list[Path]) -> list[Group]:
    """Evaluated runs by task, training length, positions and whatever else differs but the seed.

    Raises:
        FormatError: none of the runs was evaluated, or two of them are the same.
    """
    order = {name: at for at, name in enumerate((*TASKS, *POSITIONS))}
    families: dict[tuple[str, int, str], dict[str, list[Run]]] = {}
    for run in find_runs(places):
        if run.finished and read(run):
            o = run.options
            settings = _settings(o.to_dict())
            family = families.setdefault((o.task, o.top, o.positions), {})
            same = family.setdefault(settings, [])
            if any(other.options.seed == o.seed for other in same):
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
            runs.sort(key=lambda run: run.options.seed)
            pages, reports = tuple(read(run) for run in runs), tuple(run.report() for run in runs)
            variant = _special(runs[0], [others[0] for others in family.values()])
            found.append(Group(task, longest, positions, variant, tuple(runs), pages, reports))
    return found


def _special(run: Run, family: Sequence[Run]) -> str:
    """The options in which a run differs from any of its family, as ``name value``."""
    mine = run.options.to_dict()
    names = {n for other in family for n in run.options.differences(other.options)} - {"seed"}
    return ", ".join(f"{name} {_toml(mine[name])}" for name in sorted(names))


def report(places: list[Path], out: Path | None, *, counters: bool = True) -> dict[str, Any]:
    """Tables of all evaluated runs; with ``out`` also pictures, and the page that shows them.

    Args:
        places: runs, or folders of runs.
        out: folder of the page; what stands outside its marks is kept.
        counters: whether the cursors of PRISM models are drawn before and after training.

    Returns:
        ``tables`` as Markdown; ``groups``: the figures.
    """
    groups = gather(places)
    text, pictures = _sections(groups, counters=counters and out is not None)
    if out is not None:
        folder = out / PICTURES
        folder.mkdir(parents=True, exist_ok=True)
        for name, picture in pictures.items():
            write_bytes(folder / name, picture)
        place(out / PAGE, "Length extrapolation with PRISM positions", text, BEGIN, END)
    return {"tables": text, "groups": [_plain(group) for group in groups]}


def _sections(groups: Sequence[Group], *, counters: bool) -> tuple[str, dict[str, bytes]]:
    lines: list[str] = []
    pictures: dict[str, bytes] = {}
    for task, longest in dict.fromkeys((group.task, group.longest) for group in groups):
        mine = [group for group in groups if (group.task, group.longest) == (task, longest)]
        lines += [f"## {task}, trained up to {longest} {TASKS[task].unit}", ""]
        stem = f"{task}-{longest}"
        pictures[f"{stem}.png"] = plots.curves(mine)
        lines += [f"![Exact matches over length]({PICTURES}/{stem}.png)", ""]
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
                        f"![Cursors of {group.label}, before and after training]({PICTURES}/{name})",
                        "",
                    ]
        lines += [_cost(mine), _command(mine), ""]
    return "\n".join(lines), pictures


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
        option = group.runs[0].options
        rows.append(
            [
                group.label,
                str(group.reports[0]["parameters"]),
                str(option.steps),
                str(option.batch),
                f"{option.lr:g}",
                spread([r["cpu_ms_per_update"] for r in group.reports], 1),
                spread([r["cpu_ms_per_update"] * option.steps / 1000 for r in group.reports], 0),
            ]
        )
    head = ["positions", "parameters", "updates", "batch", "rate", "CPU ms an update", "CPU s of all updates"]
    return "What the runs are, and cost (processor time of one thread):\n\n" + table(head, rows)


def _command(groups: Sequence[Group]) -> str:
    """Commands that make these runs and this table anew."""
    made: dict[str, list[Group]] = {}
    for group in groups:
        o = group.runs[0].options
        made.setdefault(_settings(o.to_dict()), []).append(group)
    lines, folders = ["```"], ["runs/tasks"]
    seen: set[str] = set()
    for settings, same in made.items():
        seeds = sorted({run.options.seed for group in same for run in group.runs})
        names = {group.positions for group in same}
        if names & seen:
            folders.append(f"runs/tasks-{len(folders) + 1}")
        folder = folders[-1] if names & seen else folders[0]
        seen |= names
        lines.append(
            f"pyanticip tasks train --out {folder} --task {same[0].task} --positions "
            f"{','.join(group.positions for group in same)} --seeds {','.join(map(str, seeds))}{settings}"
        )
    page = groups[0].pages[0]
    counts = sorted(set(page["samples"].values()), reverse=True)
    far = f" --long-samples {counts[-1]}" if len(counts) > 1 else ""
    lines.append(
        f"pyanticip tasks evaluate {' '.join(folders)} --samples {counts[0]}{far} --seed {page['seed']} "
        f"--lengths {','.join(str(n) for n in groups[0].shares(False))} "
        f"--checkpoints {max(len(p['curves']) for group in groups for p in group.pages)}"
    )
    lines.append(f"pyanticip tasks report {' '.join(folders)} --out docs/experiments")
    return "\n".join([*lines, "```"])


def _settings(options: Mapping[str, Any]) -> str:
    """The options that differ from the defaults, as the command line takes them."""
    from training.tasks.options import CURSORS, EXECUTION, TaskOptions

    base = TaskOptions(task=options["task"]).to_dict()
    named = ("longest", "steps", "batch", "lr")
    text = ""
    for name, value in options.items():
        if name in ("task", "positions", "seed", *EXECUTION) or value == base[name]:
            continue
        if name in CURSORS and options["positions"] != "prism":
            continue
        if name == "model":
            text += "".join(f" --set model.{key}={_toml(item)}" for key, item in value.items())
        elif name in named:
            text += f" --{name} {value}"
        else:
            text += f" --set {name}={_toml(value)}"
    return text


def _toml(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _plain(group: Group) -> dict[str, Any]:
    return {
        "task": group.task,
        "longest": group.longest,
        "positions": group.positions,
        "variant": group.variant,
        "seeds": [run.options.seed for run in group.runs],
        "last": {str(n): values for n, values in group.shares(False).items()},
        "top_three": {str(n): values for n, values in group.shares(True).items()},
        "parameters": group.reports[0]["parameters"],
        "cpu_ms_per_update": [report["cpu_ms_per_update"] for report in group.reports],
    }
