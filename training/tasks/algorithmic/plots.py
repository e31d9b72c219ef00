"""Runs of tasks that differ in their seed alone, gathered for tables, and the pictures of a report as PNG."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from pyanticip.errors import FormatError
from training.report.pages import png, pyplot
from training.tasks.algorithmic import TASKS
from training.tasks.algorithmic.batches import samples, stack
from training.tasks.algorithmic.evaluate import last, read, top_three
from training.tasks.algorithmic.module import cursor_weights, new_model
from training.tasks.algorithmic.options import CURSORS, POSITIONS, TaskOptions
from training.tasks.algorithmic.problem import decode
from training.tasks.algorithmic.runs import TaskRun, find_runs, newest


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
        """Processor seconds of all updates of every seed."""
        steps = self.runs[0].options.schedule.steps
        return [page["cpu_ms_per_update"] * steps / 1000 for page in self.reports]


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
    """The options in which a run differs from any of its family, as ``name value``."""
    mine = run.options.flat()
    names = {n for other in family for n in run.options.differences(other.options)} - {"schedule.seed"}
    named = {name.rpartition(".")[2]: mine.get(name) for name in names}
    return ", ".join(f"{n} {plain(v)}" for n, v in sorted(named.items()))


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


SHOWN: Final = 4
"""Pairs of cursors in a picture."""

COLOURS: Final = {
    "prism": "tab:red",
    "sinusoidal": "tab:blue",
    "rope": "tab:green",
    "alibi": "tab:orange",
    "none": "tab:gray",
}

STYLES: Final = ("o-", "s--", "^:", "d-.")
"""Of groups with the same positions."""


def curves(groups: Sequence[Group]) -> bytes:
    """Exact matches over length: the mean over seeds, and all of them between the lowest and the highest."""
    plt = pyplot()
    titles = {False: "last weights", True: "mean of the three best weights at each length"}
    parts = [top for top in titles if any(group.shares(top) for group in groups)]
    figure, (axes,) = plt.subplots(
        1, len(parts), figsize=(5.8 * len(parts) + 1.8, 3.6), sharey=True, squeeze=False
    )
    for top, axis in zip(parts, axes, strict=True):
        seen: Counter[str] = Counter()
        for group in groups:
            shares = group.shares(top)
            if not shares:
                continue
            lengths = np.array(list(shares))
            values = [np.array(shares[n]) for n in shares]
            colour = COLOURS[group.positions]
            style = STYLES[seen[group.positions] % len(STYLES)]
            seen[group.positions] += 1
            mean = np.array([v.mean() for v in values])
            axis.plot(lengths, 100 * mean, style, color=colour, ms=4, lw=1.5, label=fill(group.label, 34))
            low, high = (np.array([f(v) for v in values]) for f in (np.min, np.max))
            axis.fill_between(lengths, 100 * low, 100 * high, color=colour, alpha=0.15, lw=0)
        axis.axvline(groups[0].longest, color="black", ls=":", lw=1)
        axis.set_xscale("log")
        ticks = sorted({n for group in groups for n in group.shares(top)})
        room = (ticks[-1] / ticks[0]) ** 0.03
        labelled = [n for at, n in enumerate(ticks) if not at or n > room * ticks[at - 1]]
        axis.set_xticks(ticks, [str(n) if n in labelled else "" for n in ticks], fontsize=8)
        axis.minorticks_off()
        axis.set_xlabel(f"length in {TASKS[groups[0].task].unit}; trained left of the dotted line")
        axis.set_title(titles[top], fontsize=10)
    axes[0].set_ylabel("% exact")
    axes[0].set_ylim(-3, 103)
    axes[-1].legend(
        handles=axes[0].get_legend_handles_labels()[0],
        fontsize=8,
        loc="center left",
        bbox_to_anchor=(1.01, 0.5),
    )
    seeds = sorted({len(group.runs) for group in groups})
    count = " or ".join(map(str, seeds)) if len(seeds) < 3 else f"{seeds[0]} to {seeds[-1]}"
    figure.suptitle(
        f"{groups[0].task}: {count} seed{'s' * (seeds[-1] > 1)}, band from the worst to the best", fontsize=11
    )
    figure.tight_layout()
    return png(figure, dpi=90)


@torch.no_grad()
def counters(run: TaskRun) -> bytes | None:
    """The histograms of a model's cursors over an example of twice the training length, before and after
    training; None for a model without cursors.

    Of every cursor the place is drawn over the tokens. Shown are those that the trained model's scores weigh
    most, queries above and keys below.
    """
    task = TASKS[run.options.task]
    length = task.longer(run.options.top)
    example = samples(task, length, 1, 0)[0]
    ids = stack([example]).ids
    models = {
        "before training": new_model(run.options, length).eval(),
        "after training": run.load(newest(run, 1)[0], length),
    }
    weights = torch.stack([weight.abs() for weight in cursor_weights(models["after training"])])
    count = weights.shape[-1]
    shown = weights.flatten(0, -2).amax(0).topk(min(SHOWN, count)).indices.sort().values.tolist()
    drawn = []
    for title, model in models.items():
        places, _ = model.positions.vectors(model.token(ids), None)
        if places is None:
            return None
        assert places.histograms is not None
        pairs = places.histograms.shape[2] // 2
        for offset, kind in ((0, "query"), (pairs, "key")):
            for cursor in shown:
                drawn.append(
                    (title, f"{kind} {cursor + 1}", places.histograms[0, :, offset + cursor].numpy())
                )
    title = f"{run.folder.name}, {length} {task.unit}"
    return cursors(drawn, decode(ids[0].tolist()), len(example.prompt), title)


def cursors(
    drawn: Sequence[tuple[str, str, NDArray[np.float32]]], labels: Sequence[str], asked: int, title: str
) -> bytes:
    """Histograms over time, in rows by their first name.

    Args:
        drawn: row, name and histogram (L, P) of each.
        labels: of the L tokens.
        asked: tokens of the prompt.
        title: over all.
    """
    plt = pyplot()
    rows = list(dict.fromkeys(row for row, _, _ in drawn))
    columns = max(sum(row == name for name, _, _ in drawn) for row in rows)
    figure, axes = plt.subplots(len(rows), columns, figsize=(1.75 * columns, 2.3 * len(rows)), squeeze=False)
    top = 4 + max(int(np.nonzero(h.max(0) > 0.05)[0].max()) for _, _, h in drawn)
    for number, row in enumerate(rows):
        mine = [(name, histogram) for each, name, histogram in drawn if each == row]
        for axis, (name, histogram) in zip(axes[number], mine, strict=True):
            axis.imshow(
                histogram[:, :top].T, aspect="auto", origin="lower", cmap="magma", vmin=0, vmax=1,
                # More places than pixels: every one of them has to show.
                interpolation="nearest" if top <= 150 else "antialiased",
            )  # fmt: skip
            axis.axvline(asked - 0.5, color="cyan", lw=0.8)
            axis.set_title(name, fontsize=8)
            few = len(labels) <= 50
            axis.set_xticks(range(len(labels)) if few else [], labels if few else [], fontsize=4)
            axis.tick_params(axis="y", labelsize=6)
        axes[number][0].set_ylabel(f"{row}\nplace", fontsize=8)
    figure.suptitle(
        f"{title}: place of the cursors over the tokens; right of the line the answer", fontsize=10
    )
    figure.tight_layout()
    return png(figure, dpi=110)
