"""The pictures of a report on tasks, as PNG bytes."""

from collections import Counter
from collections.abc import Sequence
from textwrap import fill
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from training.report.pages import png, pyplot
from training.tasks.algorithmic import TASKS
from training.tasks.algorithmic.batches import samples, stack
from training.tasks.algorithmic.groups import Group
from training.tasks.algorithmic.module import cursor_weights, new_model
from training.tasks.algorithmic.runs import TaskRun, newest
from training.tasks.algorithmic.starts import chosen
from training.tasks.algorithmic.vocabulary import decode

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
        told = [n for at, n in enumerate(ticks) if not at or n > room * ticks[at - 1]]
        axis.set_xticks(ticks, [str(n) if n in told else "" for n in ticks], fontsize=8)
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
        "before training": new_model(run.options, length, start=chosen(run.folder)).eval(),
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
