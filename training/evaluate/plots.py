"""The pictures of a motion report, as PNG bytes."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pyanticip.vocabulary import HORIZONS_MS, PARAMETERS, RATE
from training.data.batches import HORIZONS
from training.data.examples import Example
from training.evaluate.events import Announcements
from training.evaluate.shares import BARS, RIVALS
from training.report.pages import bare, png, pyplot

COLOURS: Final = {"model": "#0a6fb5", "hold": "#e08214", "linear": "#7f9a3c", "tracker": "#a4508b"}
NAMES: Final = {"model": "model", **RIVALS}
GREY: Final = "0.72"
SHOWN: Final = 3
"""Index of the horizon that clips are drawn at: 200 ms."""


def errors(report: Mapping[str, Any]) -> bytes:
    """Mean errors by horizon: over the eight with their intervals, and each parameter by itself."""
    plt = pyplot()
    figure = plt.figure(figsize=(10.5, 7.2))
    grid = figure.add_gridspec(3, 4, height_ratios=(1.5, 1.0, 1.0), hspace=0.5, wspace=0.28)
    first = figure.add_subplot(grid[0, :])
    for who, name in NAMES.items():
        interval = report["interval"][who]
        first.fill_between(
            HORIZONS_MS, interval["low"], interval["high"], color=COLOURS[who], alpha=0.10, lw=0
        )
        first.plot(HORIZONS_MS, report["mean"][who], "o-", ms=4, lw=1.8, color=COLOURS[who], label=name)
    first.set_title("mean over the eight parameters, 95 % intervals over subjects", fontsize=10)
    first.set_ylabel("mean absolute error", fontsize=9)
    first.legend(fontsize=8, ncols=4, loc="upper left", frameon=False)
    first.set_ylim(0.0, 1.25 * max(max(report["interval"][who]["high"]) for who in NAMES))
    first.set_xticks(HORIZONS_MS)
    bare(first)
    for k, name in enumerate(PARAMETERS):
        axis = figure.add_subplot(grid[1 + k // 4, k % 4])
        for who in reversed(NAMES):
            axis.plot(
                HORIZONS_MS, report["per_parameter"][who][name], "o-", ms=2.5, lw=1.3, color=COLOURS[who]
            )
        axis.set_title(name, fontsize=9)
        axis.set_ylim(bottom=0.0)
        axis.set_xticks(HORIZONS_MS[::2])
        if k >= 4:
            axis.set_xlabel("ms ahead", fontsize=8)
        bare(axis)
    figure.subplots_adjust(left=0.07, right=0.985, top=0.95, bottom=0.07)
    return png(figure)


def shares(report: Mapping[str, Any]) -> bytes:
    """The model's error as a share of the best rival's: each parameter, the averages and their bars."""
    plt = pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 3.7), width_ratios=(1.25, 1.0))
    ours = np.array([report["per_parameter"]["model"][name] for name in PARAMETERS])
    best = np.min([[report["per_parameter"][who][name] for name in PARAMETERS] for who in RIVALS], axis=0)
    ratio = ours / np.maximum(best, 1e-12)
    image = left.imshow(ratio, cmap="RdYlBu_r", vmin=0.2, vmax=1.8, aspect="auto")
    for (k, i), value in np.ndenumerate(ratio):
        dark = abs(value - 1.0) > 0.55
        left.text(i, k, f"{value:.2f}", ha="center", va="center", fontsize=8, color="w" if dark else "k")
    left.set_xticks(range(len(HORIZONS_MS)), [f"{ms} ms" for ms in HORIZONS_MS])
    left.set_yticks(range(len(PARAMETERS)), PARAMETERS)
    left.set_title("error / best rival's, by parameter", fontsize=10)
    left.tick_params(labelsize=8, length=0)
    figure.colorbar(image, ax=left, fraction=0.046)
    for offset, reading, marker in ((-0.12, "ratio_of_means", "o"), (0.12, "mean_of_ratios", "s")):
        for n, share in enumerate(report["shares"]):
            one = share[reading]
            spread = [[max(one["value"] - one["low"], 0)], [max(one["high"] - one["value"], 0)]]
            right.errorbar(
                n + offset,
                one["value"],
                spread,
                fmt=marker,
                ms=5,
                capsize=3,
                color=COLOURS["model"] if offset < 0 else "#5c3c92",
                label=reading.replace("_", " ") if n == 0 else None,
            )
    for n, bar in enumerate(BARS.values()):
        right.plot([n - 0.33, n + 0.33], [bar, bar], color="k", lw=1.4, label="bar" if n == 0 else None)
    right.axhline(1.0, color=GREY, lw=1.0)
    right.set_xticks(range(len(BARS)), [f"{ms} ms" for ms in BARS])
    right.set_xlim(-0.6, len(BARS) - 0.4)
    right.set_ylim(bottom=0.0)
    right.set_title("averaged over the eight", fontsize=10)
    right.legend(fontsize=8, frameon=False, loc="lower right")
    bare(right)
    figure.tight_layout()
    return png(figure)


WHO: Final = (
    ("model, as it plays", "#08467a"),
    ("model, reach rule", "#1b6fb0"),
    ("model, live rule", "#4f9fd8"),
    ("model, window rule", "#a3cdea"),
    ("extrapolator", "#7f9a3c"),
    ("detector, in hindsight", "0.75"),
    ("detector", "0.45"),
)


def beat(rows: Sequence[Mapping[str, Any]], event: str = "onset") -> bytes:
    """F1 by kind of movement and lead, with intervals over subjects; the detector decides after the event."""
    chosen = [row for row in rows if row["event"] == event]
    groups = list(dict.fromkeys(row["category"] for row in chosen))
    plt = pyplot()
    figure, axes = plt.subplots(
        1, len(groups), figsize=(max(2.7 * len(groups), 7.0), 3.4), sharey=True, squeeze=False
    )
    for axis, group in zip(axes[0], groups, strict=True):
        mine = [row for row in chosen if row["category"] == group]
        leads = sorted({row["lead_ms"] for row in mine if row["lead_ms"] is not None})
        for n, (who, colour) in enumerate(WHO):
            for row in (row for row in mine if row["who"] == who):
                # What decides after the event has no lead: it stands to the left of all that do.
                place = -1.0 if row["lead_ms"] is None else leads.index(row["lead_ms"])
                at = place + (n - (2.0 if row["lead_ms"] is not None else 5.5)) * 0.17
                low, high = row.get("f1_low", row["f1"]), row.get("f1_high", row["f1"])
                axis.bar(at, row["f1"], width=0.155, color=colour, label=who)
                axis.plot([at, at], [low, high], color="k", lw=0.9)
        axis.axhline(0.8, color="k", lw=0.8, ls=":")
        late = any(row["lead_ms"] is None for row in mine)
        ticks = ([-1.0] if late else []) + [float(n) for n in range(len(leads))]
        axis.set_xticks(ticks, (["after"] if late else []) + [f"{ms}" for ms in leads])
        axis.set_title(f"{group} ({mine[0]['true']})", fontsize=9)
        axis.set_xlabel("decided, ms before", fontsize=8)
        axis.set_ylim(0.0, 1.02)
        bare(axis)
    axes[0][0].set_ylabel(f"F1 of {event}s within 50 ms", fontsize=9)
    handles: dict[str, Any] = {}
    for axis in axes[0]:
        found, labels = axis.get_legend_handles_labels()
        handles |= dict(zip(labels, found, strict=True))
    figure.tight_layout(rect=(0.0, 0.0, 1.0, 0.86))
    figure.legend(handles.values(), handles.keys(), fontsize=8, ncols=3, loc="upper center", frameon=False)
    return png(figure)


def reliability(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Reliability diagrams: how often events came against how likely they were said to be."""
    events = list(dict.fromkeys(row["event"] for row in rows))
    widths = sorted({row["within_ms"] for row in rows})
    plt = pyplot()
    figure, axes = plt.subplots(
        len(events), len(widths), figsize=(3.3 * len(widths), 3.1 * len(events)), squeeze=False
    )
    for row in rows:
        axis = axes[events.index(row["event"])][widths.index(row["within_ms"])]
        said, seen, frames = (np.array([b[key] for b in row["bins"]]) for key in ("said", "seen", "frames"))
        axis.plot([0, 1], [0, 1], color=GREY, lw=1.0)
        axis.axhline(row["base_rate"], color="k", lw=0.7, ls=":")
        axis.plot(said, seen, "-", lw=1.2, color=COLOURS["model"])
        axis.scatter(said, seen, s=4.0 + 130.0 * frames / frames.sum(), color=COLOURS["model"], zorder=3)
        skill = "-" if row["skill"] is None else f"{row['skill']:+.2f}"
        axis.set_title(
            f"{row['event']} within {row['within_ms']} ms: ECE {row['ece']:.3f}, skill {skill}", fontsize=8
        )
        axis.set_xlim(-0.03, 1.03)
        axis.set_ylim(-0.03, 1.03)
        axis.set_aspect("equal")
        bare(axis)
    for axis in axes[-1]:
        axis.set_xlabel("said probability", fontsize=8)
    for row_axes in axes:
        row_axes[0].set_ylabel("how often it came", fontsize=8)
    figure.tight_layout(h_pad=1.6)
    return png(figure)


def gate(curves: Mapping[str, Any]) -> bytes:
    """The gate as veto and as deferral."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.2))
    veto, waits, free = curves["veto"], curves["deferral"], curves["at_once"]
    levels = [line["gate_above"] for line in veto]
    for key, colour in (("precision", "#0a6fb5"), ("recall", "#e08214")):
        axes[0].plot(levels, [line[key] for line in veto], "o-", ms=3, lw=1.4, color=colour, label=key)
    axes[0].set_title("veto: only where the gate is above", fontsize=9)
    axes[0].set_xlabel("gate above", fontsize=8)
    thetas = [line["theta"] for line in waits]
    for key, colour in (("precision", "#0a6fb5"), ("recall", "#e08214")):
        axes[1].plot(thetas, [line[key] for line in waits], "o-", ms=3, lw=1.4, color=colour, label=key)
        axes[1].axhline(free[key], color=colour, lw=0.8, ls=":")
    axes[1].set_title("deferral; dotted: no waiting", fontsize=9)
    axes[1].set_xlabel("theta", fontsize=8)
    for axis in axes[:2]:
        axis.set_ylim(0.0, 1.02)
        axis.legend(fontsize=8, frameon=False)
        bare(axis)
    known = [line for line in waits if line["mean_lead_ms"] is not None]
    axes[2].plot(
        [line["theta"] for line in known], [line["mean_lead_ms"] for line in known], "o-", ms=3, color="0.3"
    )
    if free["mean_lead_ms"] is not None:
        axes[2].axhline(free["mean_lead_ms"], color="0.3", lw=0.8, ls=":")
    axes[2].set_ylim(bottom=0.0)
    axes[2].set_title("mean lead of the hits, ms", fontsize=9)
    axes[2].set_xlabel("theta", fontsize=8)
    bare(axes[2])
    figure.tight_layout()
    return png(figure)


def suits(rows: Sequence[Mapping[str, Any]], report: Mapping[str, Any]) -> bytes:
    """Mean error by horizon in each suit, beside the full body's teacher and the suit's own."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(10.5, 3.3), sharey=True)
    shades = plt.get_cmap("viridis")(np.linspace(0.05, 0.9, len(rows)))
    for axis, key, title in (
        (axes[0], "full_body", "against the full body's teacher"),
        (axes[1], "own_body", "against the suit's own teacher"),
    ):
        for row, shade in zip(rows, shades, strict=True):
            axis.fill_between(HORIZONS_MS, row[key]["low"], row[key]["high"], color=shade, alpha=0.08, lw=0)
            name = f"{row['joints']} joint{'s' if row['joints'] > 1 else ''}"
            name += "" if row["place_known"] else ", place not known"
            axis.plot(HORIZONS_MS, row[key]["mean"], "o-", ms=3, color=shade, label=name)
        best = np.min([report["mean"][who] for who in RIVALS], axis=0)
        axis.plot(HORIZONS_MS, best, color="k", lw=1.0, ls=":", label="best rival, whole body")
        axis.set_title(title, fontsize=9)
        axis.set_xlabel("ms ahead", fontsize=8)
        axis.set_xticks(HORIZONS_MS)
        bare(axis)
    # The two share their scale: it is set when both are drawn.
    axes[0].set_ylim(bottom=0.0)
    axes[0].set_ylabel("mean absolute error", fontsize=9)
    figure.tight_layout(rect=(0.0, 0.0, 0.83, 1.0))
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=8, loc="center right", frameon=False)
    return png(figure)


def clip(
    example: Example,
    said: NDArray[np.float32],
    rival: NDArray[np.float32],
    told: Announcements | None = None,
    *,
    seconds: float = 6.0,
) -> bytes:
    """Teacher, model and the held twin over a clip's first seconds, each value at the time it speaks of.

    Args:
        example: the clip.
        said: (T, 8, 5) of the model.
        rival: (T, 8, 5) of the held twin.
        told: announced onsets, drawn beside the teacher's.
        seconds: how much of the clip.
    """
    plt = pyplot()
    h = HORIZONS[SHOWN]
    frames = min(len(example), round(seconds * RATE))
    t = np.arange(frames) / RATE
    figure, axes = plt.subplots(
        len(PARAMETERS) + 1,
        1,
        figsize=(9.0, 10.5),
        sharex=True,
        height_ratios=[1.0] * len(PARAMETERS) + [0.45],
    )
    for k, (axis, name) in enumerate(zip(axes, PARAMETERS, strict=False)):
        axis.plot(t, example.params[:frames, k], color=GREY, lw=3.0, label="teacher")
        axis.plot(t[h:], rival[: frames - h, k, SHOWN], color=COLOURS["hold"], lw=1.0, label="twin held")
        axis.plot(t[h:], said[: frames - h, k, SHOWN], color=COLOURS["model"], lw=1.3, label="model")
        axis.set_ylim(-0.03, 1.03)
        axis.set_ylabel(name, fontsize=8)
        bare(axis)
    true = example.onsets[example.onsets < frames] / RATE
    axes[-1].vlines(true, 0.5, 1.0, color="0.4", lw=1.5)
    if told is not None and len(told):
        shown = told.times < frames
        axes[-1].vlines(told.times[shown] / RATE, 0.0, 0.5, color=COLOURS["model"], lw=1.5)
        axes[-1].plot(told.decided[shown] / RATE, np.full(shown.sum(), 0.25), ".", color=COLOURS["model"])
    axes[-1].set_ylim(0.0, 1.0)
    axes[-1].set_yticks([0.25, 0.75], ["announced", "onsets"], fontsize=8)
    bare(axes[-1])
    axes[0].legend(loc="upper right", ncols=3, fontsize=8, frameon=False)
    axes[0].set_title(
        f"{example.name}: said {HORIZONS_MS[SHOWN]} ms before, drawn at the time it is about", fontsize=10
    )
    axes[-1].set_xlabel("seconds", fontsize=8)
    figure.tight_layout(h_pad=0.3)
    return png(figure, dpi=70)
