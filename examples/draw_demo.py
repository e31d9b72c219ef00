"""Draw the pictures of the README and of docs/voice.md from the bundled performance.

    python examples/draw_demo.py              # needs pip install 'pyanticip[train]'

renders realtime/data/performance.bvh offline, as `pyanticip render` does, and writes docs/img/overview.png
(the dancer, the seven scalars, the parameters now and ahead) and docs/img/demo_spectrogram.png (the sound and
the parameters that play it).
"""

import argparse
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
import soundfile
from matplotlib.figure import Figure
from PIL import Image

from pyanticip import SCALARS, load_motion
from pyanticip.vocabulary import PARAMETERS
from realtime.programs.demo import PERFORMANCE
from realtime.programs.render import render
from realtime.rig import Rig

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "img"
INK, PALE = "#1d2433", "#c9ced8"
COLOURS = ("#d1495b", "#e09f3e", "#8a9a5b", "#3a7d74", "#2e86ab", "#5c6bc0", "#8e5ea2", "#b5838d")
LEAD_MS = 200


def render_performance(name: str, folder: Path, **rig: Any) -> Path:
    """Render the performance with the given rig tables; returns the path of the file ``name``."""
    out = folder / name
    report = render(PERFORMANCE, out, rig=Rig.model_validate(rig))
    print(f"{name}: {report['frames']} frames, model {report['model']}, {report['events']} events")
    return out


def spectrogram(x: npt.NDArray[np.float64], rate: int, columns: int) -> tuple[Any, Any]:
    """Level in dB on logarithmic frequencies, shape (bands, columns), and the bands in Hz."""
    size = 8192
    starts = np.linspace(0, len(x) - size, columns).astype(int)
    frames = np.stack([x[s : s + size] for s in starts]) * np.hanning(size)
    power = np.abs(np.fft.rfft(frames, axis=1)) ** 2
    bands = np.geomspace(40, 12_000, 301)
    edges = np.searchsorted(np.fft.rfftfreq(size, 1 / rate), bands)
    band_power = [power[:, a : max(b, a + 1)].mean(axis=1) for a, b in pairwise(edges)]
    level = 10 * np.log10(np.stack(band_power) + 1e-9)
    return level - level.max(), bands


def hide_frame(axis: Any, *, bottom: bool = False) -> None:
    """Hide spines, ticks and labels; with ``bottom``, keep those of the x axis."""
    for side in ("top", "right", "left", "bottom"):
        axis.spines[side].set_visible(bottom and side == "bottom")
    axis.tick_params(left=False, labelleft=False, bottom=bottom, labelbottom=bottom, colors=INK)


def plot_rows(
    figure: Any, grid: Any, names: tuple[str, ...], t: Any, values: Any, ranges: Any, ahead: Any = None
) -> None:
    """Plot one row per name, filled from below; ``ahead`` as a dark line."""
    for i, name in enumerate(names):
        axis = figure.add_subplot(grid[i])
        low, high = ranges[i]
        axis.fill_between(
            t, low, values[:, i], color=COLOURS[i], alpha=0.35 if ahead is not None else 0.8, lw=0
        )
        axis.plot(t, values[:, i], color=COLOURS[i], lw=1.0)
        if ahead is not None:
            axis.plot(t, ahead[:, i], color=INK, lw=0.7)
        axis.set_xlim(t[0], t[-1])
        axis.set_ylim(low, high)
        axis.text(
            -0.008, 0.4, name.replace("_", " "), transform=axis.transAxes, ha="right", color=INK, fontsize=8
        )
        hide_frame(axis, bottom=i == len(names) - 1)
    axis.tick_params(labelsize=8)


def add_caption(figure: Figure, text: str) -> None:
    """Write small text below the last row, at the right."""
    figure.text(0.98, 0.008, text, ha="right", color=INK, fontsize=8)


def draw_overview(now: Any, ahead: Any) -> Figure:
    """The dancer above the scalars above the parameters."""
    clip = load_motion(PERFORMANCE)
    positions, parents = clip.positions(), clip.skeleton.parents
    end = float(now["t"][-1])
    figure = plt.figure(figsize=(11, 7.6), dpi=110)
    rows = figure.add_gridspec(
        3, 1, height_ratios=(2.0, 2.6, 3.3), left=0.13, right=0.98, top=0.99, bottom=0.06, hspace=0.16
    )
    stage = figure.add_subplot(rows[0])
    for moment in np.arange(0.75, end, 1.45):
        pose = positions[min(int(moment * clip.rate), len(positions) - 1)]
        x = (pose[:, 0] - pose[0, 0]) * 1.05 + moment
        for joint, parent in enumerate(parents):
            if parent >= 0:
                name = clip.skeleton.names[joint]
                colour = COLOURS[4] if "Left" in name else COLOURS[0] if "Right" in name else INK
                stage.plot(
                    x[[parent, joint]], pose[[parent, joint], 1], color=colour, lw=2, solid_capstyle="round"
                )
        head = pose[clip.skeleton.names.index("Head")]
        stage.plot(head[0] - pose[0, 0] + moment, head[1] + 0.1, "o", color=INK, ms=6)
    stage.set_xlim(0, end)
    stage.set_ylim(-0.05, 2.3)
    hide_frame(stage)
    ranges = [(0.0, 1.0)] * 7
    ranges[2] = (-1.5, 1.5)
    middle = rows[1].subgridspec(7, 1, hspace=0.25)
    plot_rows(figure, middle, SCALARS, now["t"], now["scalars"], ranges)
    lower = rows[2].subgridspec(8, 1, hspace=0.25)
    future = ahead["params"][: len(now["t"])]
    plot_rows(figure, lower, PARAMETERS, now["t"], now["params"], [(0, 1)] * 8, future)
    add_caption(figure, f"seconds;  dark lines: predicted {LEAD_MS} ms ahead;  limbs: left blue, right red")
    return figure


def draw_sound(now: Any, wav: Path) -> Figure:
    """The spectrogram, with marks of the events, above the parameters."""
    stereo, rate = soundfile.read(wav)
    end = float(now["t"][-1])
    x = stereo[: int(end * rate)].mean(axis=1)
    figure = plt.figure(figsize=(11, 7.6), dpi=110)
    rows = figure.add_gridspec(
        2, 1, height_ratios=(3.4, 3.2), left=0.11, right=0.98, top=0.98, bottom=0.06, hspace=0.1
    )
    axis = figure.add_subplot(rows[0])
    level, bands = spectrogram(x, rate, 900)
    times = np.arange(level.shape[1]) / level.shape[1] * end
    axis.pcolormesh(
        times, bands[:-1], level, cmap="magma", vmin=-75, vmax=0, shading="nearest", rasterized=True
    )
    axis.set_yscale("log")
    axis.set_yticks([50, 100, 200, 500, 1000, 2000, 5000, 10000])
    axis.set_yticklabels(["50", "100", "200", "500", "1k", "2k", "5k", "10k Hz"], fontsize=8)
    axis.minorticks_off()
    axis.tick_params(labelbottom=False, colors=INK)
    for t, name in zip(now["event_t"], now["event_name"], strict=True):
        colour = "white" if name == "onset" else "#7fffd4"
        axis.axvline(t, ymin=0.93 if name == "onset" else 0.86, color=colour, lw=1.2)
    lower = rows[1].subgridspec(8, 1, hspace=0.25)
    plot_rows(figure, lower, PARAMETERS, now["t"], now["params"], [(0, 1)] * 8)
    add_caption(figure, "seconds;  marks at the top: beats white and short, phrases green and long")
    return figure


def save(figure: Figure, path: Path) -> None:
    """Save as a PNG of 256 colours: a third of the size, without a visible difference."""
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path)
    plt.close(figure)
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    small.save(path, optimize=True)
    print(f"{path}: {path.stat().st_size // 1024} KB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=IMAGES, help="folder for the pictures")
    parser.add_argument("--no-model", action="store_true", help="let the seven scalars play alone")
    parser.add_argument("--checkpoint", help="another model than the built-in one")
    arguments = parser.parse_args()
    model = {"enabled": not arguments.no_model, "checkpoint": arguments.checkpoint}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        now = dict(np.load(render_performance("now.npz", folder, model=model, lead_ms=0)))
        ahead = dict(np.load(render_performance("ahead.npz", folder, model=model, lead_ms=LEAD_MS)))
        wav = render_performance("now.wav", folder, model=model)
        save(draw_overview(now, ahead), arguments.out / "overview.png")
        save(draw_sound(now, wav), arguments.out / "demo_spectrogram.png")


if __name__ == "__main__":
    main()
