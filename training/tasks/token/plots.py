"""Pictures of a language report, as PNG bytes."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pyanticip.vocabulary import SCALARS
from training.report.pages import png, pyplot
from training.tasks.token.metrics import Predictions

SHORT: Final = ("C", "U", "T", "R", "P", "N", "S")
"""Initials of the scalars, in order."""

MAX_DOTS: Final = 4000
"""Maximum number of dots in a scatter plot."""


def losses(curves: Mapping[str, Mapping[str, NDArray[np.float64]]]) -> bytes:
    """Plot loss curves of several runs.

    Args:
        curves: columns of the metrics by run: ``step``, and any of the terms drawn here.
    """
    from matplotlib import ticker

    parts = [
        ("ce", "cross-entropy, training", "nats a token"),
        ("valid_ce", "cross-entropy, held out", "nats a token"),
        ("scalar_refined", "scalar error (refined head)", "mean squared error"),
        ("ortho_excess", "head overlap above its floor", "penalty"),
    ]
    shown = [part for part in parts if any(part[0] in c for c in curves.values())]
    plt = pyplot()
    figure, axes = plt.subplots(1, max(1, len(shown)), figsize=(3.6 * max(1, len(shown)), 3.0), squeeze=False)
    for axis, (key, title, unit) in zip(axes[0], shown, strict=False):
        for n, (name, columns) in enumerate(curves.items()):
            # A plain transformer has no scalars: its zeros are not drawn.
            if key in columns and (key in ("ce", "valid_ce") or np.nanmax(columns[key]) > 0.0):
                known = np.isfinite(columns[key])
                look = {"color": f"C{n}", "marker": "o" if known.sum() == 1 else None}  # one point is no line
                axis.plot(columns["step"][known], columns[key][known], lw=1.2, ms=4, label=name, **look)
        axis.set_title(title, fontsize=9)
        axis.set_xlabel("step")
        axis.set_ylabel(unit, fontsize=8)
        drawn = np.concatenate([line.get_ydata() for line in axis.lines] or [np.zeros(1)])
        # A logarithmic axis over less than a decade may have no tick.
        if key in ("scalar_refined", "ortho_excess") and drawn.max() > 10.0 * drawn.min():
            axis.set_yscale("symlog", linthresh=1e-4)
            axis.yaxis.set_major_locator(ticker.SymmetricalLogLocator(base=10, linthresh=1e-4, subs=(1, 3)))
            axis.yaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    if len(curves) <= 12 and shown:
        axes[0][0].legend(fontsize=7)
    figure.tight_layout()
    return png(figure)


def gate(output: Predictions, before: Predictions | None) -> bytes:
    """Plot the gate against the given and the predicted commitment; the untrained model in grey."""
    assert output.gate is not None
    assert output.given is not None
    assert output.scalars is not None
    plt = pyplot()
    figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.4))
    rng = np.random.default_rng(0)
    drawn = np.flatnonzero(output.mask.ravel())
    drawn = rng.permutation(drawn)[:MAX_DOTS]
    for axis, source, title in (
        (axes[0], output.given, "given commitment"),
        (axes[1], output.scalars, "predicted commitment"),
    ):
        if before is not None and before.gate is not None and before.given is not None:
            old = before.given if source is output.given else before.scalars
            assert old is not None
            axis.plot(
                old[..., 0].ravel()[drawn],
                before.gate.ravel()[drawn],
                ".",
                ms=2,
                color="0.75",
                label="step 0",
            )
        axis.plot(
            source[..., 0].ravel()[drawn], output.gate.ravel()[drawn], ".", ms=2, alpha=0.4, label="trained"
        )
        axis.set_xlabel(title)
        axis.set_ylabel("gate")
        axis.set_xlim(-0.02, 1.02)
        axis.set_ylim(-0.02, 1.02)
    axes[0].legend(fontsize=7, markerscale=3)
    bins = np.quantile(output.given[..., 0][output.mask], np.linspace(0, 1, 11))
    index = np.clip(np.searchsorted(bins, output.given[..., 0][output.mask], "right") - 1, 0, 9)
    loss = output.loss[output.mask]
    means = [loss[index == b].mean() if (index == b).any() else np.nan for b in range(10)]
    axes[2].plot(0.5 * (bins[1:] + bins[:-1]), means, "o-", ms=3)
    axes[2].set_xlabel("given commitment")
    axes[2].set_ylabel("mean loss, nats")
    figure.tight_layout()
    return png(figure)


def profiles(reports: Sequence[Mapping[str, Any]], names: Sequence[str]) -> bytes:
    """Draw the profiles (H, 7) of the heads' first bias layer, one panel per run."""
    plt = pyplot()
    count = len(reports)
    figure, axes = plt.subplots(
        1, count, figsize=(2.6 * count + 0.8, 2.6), squeeze=False, layout="constrained"
    )
    image = None
    for axis, report, name in zip(axes[0], reports, names, strict=True):
        rows = np.asarray(report["profiles"])
        image = axis.imshow(rows, vmin=-1, vmax=1, cmap="RdBu_r", aspect="auto")
        axis.set_xticks(range(7), SHORT)
        first = axis is axes[0][0]
        axis.set_yticks(
            range(len(rows)), [f"head {h}" if first else "" for h in range(len(rows))], fontsize=7
        )
        axis.set_title(f"{name}: {report['different']} of {len(rows)} differ", fontsize=8)
        for h, k in enumerate(np.abs(rows).argmax(1)):
            axis.plot(k, h, "k.", ms=4)
    figure.colorbar(image, ax=axes[0].tolist(), fraction=0.04)
    return png(figure)


def bias_maps(amplitude: NDArray[np.float64], kernel: NDArray[np.float64], past: int) -> bytes:
    """Draw the trajectory bias of every head over one sequence, queries downwards, keys to the right.

    Each row's maximum is subtracted, since only differences along the keys affect the softmax.

    Args:
        amplitude: (L, H).
        kernel: (H, at least L) over distance.
        past: reach of the global pathway, positions.
    """
    length, count = amplitude.shape
    distance = np.arange(length)[:, None] - np.arange(length)[None, :]
    visible = (distance >= 0) & (distance <= past)
    plt = pyplot()
    columns = min(count, 4)
    rows = -(-count // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(2.7 * columns, 2.5 * rows), squeeze=False)
    for axis in axes.ravel()[count:]:
        axis.axis("off")
    for h in range(count):
        value = amplitude[:, h, None] * kernel[h][np.clip(distance, 0, kernel.shape[1] - 1)]
        value = np.where(visible, value, -np.inf)
        value = value - value.max(1, keepdims=True)
        axis = axes.ravel()[h]
        image = axis.imshow(np.where(visible, value, np.nan), cmap="viridis", interpolation="nearest")
        axis.set_title(f"head {h}", fontsize=8)
        figure.colorbar(image, ax=axis, fraction=0.046)
    figure.tight_layout()
    return png(figure)


def scalars(computed: NDArray[np.float64], external: NDArray[np.float64], own: NDArray[np.float64]) -> bytes:
    """Plot given and predicted scalars over one sequence, (L, 7) each.

    Args:
        computed: computed from the embeddings.
        external: from the refined head, steered by the computed ones.
        own: from the refined head, steered by those of the initial head.
    """
    plt = pyplot()
    figure, axes = plt.subplots(7, 1, figsize=(9.0, 8.5), sharex=True)
    for k, (axis, name) in enumerate(zip(axes, SCALARS, strict=True)):
        axis.plot(computed[:, k], color="0.6", lw=2.6, label="given")
        axis.plot(external[:, k], color="tab:blue", lw=1.2, label="predicted, given ones steer")
        axis.plot(own[:, k], color="tab:orange", lw=1.0, label="predicted, own ones steer")
        axis.set_ylabel(name.replace("_", "\n"), fontsize=7, rotation=0, ha="right", va="center")
        if name != "transition_pressure":
            axis.set_ylim(-0.05, 1.05)
    axes[0].legend(fontsize=7, ncols=3, loc="lower right")
    axes[-1].set_xlabel("token")
    figure.tight_layout()
    return png(figure)


def drift(trace: NDArray[np.float32]) -> bytes:
    """Plot the scalars (steps, 7) of a model that steers itself: mean and range of each block."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(9.0, 3.2))
    width = max(1, len(trace) // 100)
    for k, name in enumerate(SCALARS):
        blocks = np.array_split(trace[:, k], len(trace) // width)
        at = np.cumsum([len(b) for b in blocks]) - width / 2
        line = axis.plot(at, [b.mean() for b in blocks], lw=1.2, label=name.replace("_", " "))[0]
        axis.fill_between(
            at, [b.min() for b in blocks], [b.max() for b in blocks], color=line.get_color(), alpha=0.08
        )
    axis.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    axis.set_xlabel("self-predicted steps")
    axis.set_ylabel("scalar: mean and range of a hundredth", fontsize=8)
    figure.tight_layout()
    return png(figure)
