"""The pictures of a motion report, as PNG bytes."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from training.report.pages import bare, png, pyplot

COLOURS: Final = ("#c8dcec", "#5fa3d3", "#0a4f8a")
"""Of the three horizons, the farthest darkest."""
GREY: Final = "0.6"
TICKS: Final = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0, 10.0, 20.0)
WIDE: Final = 5
"""Kinds in a row of profiles."""


def ratios(report: Mapping[str, Any], who: str) -> bytes:
    """A forecaster's error over the best rivals', by kind and horizon, with intervals."""
    from matplotlib import ticker

    plt = pyplot()
    kinds = list(report["kinds"])
    figure, axis = plt.subplots(figsize=(10.0, 3.6))
    for i, ms in enumerate(report["horizons_ms"]):
        rows = [report["kinds"][kind]["rows"][who] for kind in kinds]
        at = np.arange(len(kinds)) + (i - 1) * 0.26
        values = np.array([row["ratio"][i] for row in rows])
        low, high = (np.array([row[end][i] for row in rows]) for end in ("low", "high"))
        reach = np.maximum([values - low, high - values], 0.0)
        axis.bar(at, values - 1.0, 0.24, bottom=1.0, color=COLOURS[i], label=f"{ms} ms ahead")
        axis.errorbar(at, values, reach, fmt="none", ecolor="k", elinewidth=0.9)
        for x, row in zip(at, rows, strict=True):
            axis.plot([x - 0.1, x + 0.1], [row["ratio_with_learned"][i]] * 2, color="#e08214", lw=2.2)
    axis.plot([], [], color="#e08214", lw=2.2, label="with the rivals that learn")
    axis.axhline(1.0, color="k", lw=0.9)
    axis.set_xticks(range(len(kinds)), [_title(report, kind) for kind in kinds], fontsize=8)
    axis.set_ylabel("error / best rival's", fontsize=9)
    axis.set_yscale("log")
    axis.yaxis.set_major_locator(ticker.FixedLocator(TICKS))
    axis.yaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    axis.yaxis.set_minor_locator(ticker.NullLocator())
    axis.legend(fontsize=8, ncols=4, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    bare(axis)
    figure.tight_layout()
    return png(figure)


def profiles(report: Mapping[str, Any], who: str) -> bytes:
    """How well what the model says fits what is so many ms away, by kind; triangles: what it claims."""
    plt = pyplot()
    kinds = list(report["kinds"])
    tall = -(-len(kinds) // WIDE)
    figure, axes = plt.subplots(
        tall, WIDE, figsize=(10.5, 2.4 * tall + 0.3), sharex=True, sharey=True, squeeze=False
    )
    for axis in axes.flat[len(kinds) :]:
        axis.axis("off")
    for axis, kind in zip(axes.flat, kinds, strict=False):
        row = report["kinds"][kind]["rows"][who]
        for i, ms in enumerate(report["horizons_ms"]):
            curve = np.array(report["kinds"][kind]["profile"][i])
            axis.plot(report["lags_ms"], curve, color=COLOURS[i], lw=1.8, label=f"said {ms} ms ahead")
            axis.plot(row["lag_ms"][i], curve.max(), "o", ms=5, color=COLOURS[i], mec="k", mew=0.6)
            axis.plot(ms, 0.02, "^", ms=6, color=COLOURS[i], mec="k", mew=0.6, clip_on=False)
        axis.axvline(0.0, color=GREY, lw=0.8)
        axis.set_title(_title(report, kind).replace("\n", " "), fontsize=8)
        axis.set_ylim(0.0, 1.0)
        bare(axis)
    for axis in axes[:, 0]:
        axis.set_ylabel("correlation", fontsize=8)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.supxlabel("ms from now of the parameters it is compared with", fontsize=9)
    figure.tight_layout(rect=(0.0, 0.0, 1.0, 0.93))
    figure.legend(handles, labels, fontsize=8, ncols=3, loc="upper center", frameon=False)
    return png(figure)


def _title(report: Mapping[str, Any], kind: str) -> str:
    found = report["kinds"][kind]
    people = len(found["people"])
    return f"{kind.replace(', ', ',')}\n({people} {'person' if people == 1 else 'people'})".replace(
        ",", ",\n", 1
    )
