"""A picture of what the model says about a clip, beside what the teacher says."""

from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pyanticip.models.config import HORIZONS_MS
from training.batches import HORIZONS
from training.data import Example
from training.descriptors import PARAMETERS
from training.filters import RATE

SHOWN: Final = 3
"""Index of the horizon that is drawn: 200 ms."""


def draw_clip(
    example: Example,
    said: NDArray[np.float32],
    rival: NDArray[np.float32],
    path: Path,
    *,
    seconds: float = 6.0,
) -> None:
    """Draw teacher, model and rival over a clip's first seconds, each value at the time it speaks of.

    Args:
        example: the clip.
        said: (T, 8, 5) of the model.
        rival: (T, 8, 5) of the held twin.
        path: PNG to write.
        seconds: how much of the clip.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    h = HORIZONS[SHOWN]
    frames = min(len(example), round(seconds * RATE))
    t = np.arange(frames) / RATE
    figure, axes = plt.subplots(len(PARAMETERS), 1, figsize=(9.0, 11.0), sharex=True)
    for k, (axis, name) in enumerate(zip(axes, PARAMETERS, strict=True)):
        axis.plot(t, example.params[:frames, k], color="0.65", lw=3.0, label="teacher")
        axis.plot(t[h:], rival[: frames - h, k, SHOWN], color="tab:orange", lw=1.0, label="twin held")
        axis.plot(t[h:], said[: frames - h, k, SHOWN], color="tab:blue", lw=1.3, label="model")
        axis.set_ylim(-0.03, 1.03)
        axis.set_ylabel(name)
    for frame in example.onsets[example.onsets < frames]:
        axes[1].axvline(frame / RATE, color="0.8", lw=0.8, zorder=0)
    axes[0].legend(loc="upper right", ncols=3, fontsize=8)
    axes[0].set_title(f"{example.name}: said {HORIZONS_MS[SHOWN]} ms before, drawn at the time it is about")
    axes[-1].set_xlabel("seconds")
    figure.tight_layout()
    figure.savefig(path, dpi=70)
    plt.close(figure)
