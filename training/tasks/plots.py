"""The pictures of a report on tasks, as PNG bytes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import torch

from training.pages import png, pyplot
from training.tasks.batches import samples, stack
from training.tasks.catalog import TASKS
from training.tasks.folder import Run, newest
from training.tasks.module import new_model
from training.tasks.vocabulary import decode

if TYPE_CHECKING:
    from training.tasks.report import Group

COLOURS: Final = {
    "prism": "tab:red",
    "sinusoidal": "tab:blue",
    "rope": "tab:green",
    "alibi": "tab:orange",
    "none": "tab:gray",
}


def curves(groups: Sequence["Group"]) -> bytes:
    """Exact matches over length: the mean over seeds, and all of them between the lowest and the highest."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(11.0, 3.6), sharey=True)
    titles = ("last weights", "mean of the three best weights at each length")
    for top, axis, title in zip((False, True), axes, titles, strict=True):
        for group in groups:
            shares = group.shares(top)
            lengths = np.array(list(shares))
            values = [np.array(shares[n]) for n in shares]
            colour = COLOURS[group.positions]
            mean = np.array([v.mean() for v in values])
            axis.plot(lengths, 100 * mean, "o-", color=colour, ms=4, lw=1.5, label=group.positions)
            low, high = (np.array([f(v) for v in values]) for f in (np.min, np.max))
            axis.fill_between(lengths, 100 * low, 100 * high, color=colour, alpha=0.15, lw=0)
        axis.axvline(groups[0].longest, color="black", ls=":", lw=1)
        axis.set_xscale("log")
        ticks = sorted({n for group in groups for n in group.shares(top)})
        axis.set_xticks(ticks, [str(n) for n in ticks], fontsize=8)
        axis.minorticks_off()
        axis.set_xlabel(f"length in {TASKS[groups[0].task].unit}; trained left of the dotted line")
        axis.set_title(title, fontsize=10)
    axes[0].set_ylabel("% exact")
    axes[0].set_ylim(-3, 103)
    axes[0].legend(fontsize=8)
    seeds = max(len(group.runs) for group in groups)
    figure.suptitle(f"{groups[0].task}: {seeds} seeds, band from the worst to the best", fontsize=11)
    figure.tight_layout()
    return png(figure, dpi=90)


@torch.no_grad()
def counters(run: Run) -> bytes | None:
    """The histograms of a model's cursors over an example of twice the training length, before and after
    training; None for a model without cursors."""
    from pyanticip.models.prism_view import draw

    task = TASKS[run.options.task]
    length = 2 * run.options.top
    example = samples(task, length, 1, 0)[0]
    ids = stack([example]).ids
    untrained = new_model(run.options, length).eval()
    trained = run.load(newest(run, 1)[0], length)
    labels = decode(ids[0].tolist())
    drawn: bytes = draw({"before training": untrained, "after training": trained}, ids, labels)
    return drawn

