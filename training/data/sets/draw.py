"""Pictures of a set, as PNG bytes."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pyanticip.vocabulary import PARAMETERS, RATE, SCALAR_COLUMNS, SCALARS
from training.data.examples import Split
from training.data.sets.format import SPLITS, ClipEntry, MotionSet
from training.data.sets.overview import sample
from training.report.pages import png, pyplot, remove_spines
from training.teacher.kinematics import PARENTS, positions

COLOURS: Final[dict[Split, str]] = {"train": "#3b6ea5", "validation": "#d08c2c", "test": "#8a4f9e"}
RED: Final = "#c0504d"
BLUE: Final = "#3b6ea5"
MIDDLE: Final = "#444444"
DPI: Final = 110
POSES: Final = 12
"""Poses per clip."""
SECONDS: Final = 12.0
"""Seconds of a clip that are drawn."""
MAX_SUBJECT_BARS: Final = 40
"""Up to this many subjects each get a bar; beyond, a histogram is drawn."""

Array = NDArray[np.float64]


def amounts(motion_set: MotionSet) -> bytes:
    """Plot the minutes of each subject, and the lengths of the clips."""
    plt = pyplot()
    minutes: dict[str, float] = {}
    side: dict[str, Split] = {}
    for clip in motion_set.clips:
        minutes[clip.subject] = minutes.get(clip.subject, 0.0) + clip.frames / RATE / 60.0
        side[clip.subject] = clip.split
    order = sorted(minutes, key=lambda subject: (SPLITS.index(side[subject]), -minutes[subject], subject))
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.0, 3.2), width_ratios=(3, 2), layout="constrained")
    if len(order) <= MAX_SUBJECT_BARS:
        labels = [name if len(name) <= 14 else f"...{name[-11:]}" for name in order]
        left.bar(range(len(order)), [minutes[s] for s in order], color=[COLOURS[side[s]] for s in order])
        turned = 0 if max(map(len, labels)) <= 3 and len(order) <= 24 else 60
        left.set_xticks(range(len(order)), labels, rotation=turned, ha="center" if turned == 0 else "right")
        # Keeps the bars narrow when there are few subjects.
        left.set_xlim(-0.7, max(len(order), 12) - 0.3)
        left.set_xlabel("subject", fontsize=9)
        left.set_ylabel("minutes", fontsize=9)
        handles = [plt.Rectangle((0, 0), 1, 1, color=COLOURS[split]) for split in SPLITS]
        figure.legend(handles, SPLITS, loc="outside upper left", ncols=3, fontsize=8, frameon=False)
    else:
        values = [[minutes[s] for s in order if side[s] == split] for split in SPLITS]
        colours = [COLOURS[split] for split in SPLITS]
        left.hist(values, bins=30, stacked=True, color=colours, label=SPLITS)
        left.set_xlabel(f"minutes of a subject ({len(order)} subjects)", fontsize=9)
        left.set_ylabel("subjects", fontsize=9)
        figure.legend(loc="outside upper left", ncols=3, fontsize=8, frameon=False)
    lengths = [[clip.frames / RATE for clip in motion_set.clips if clip.split == split] for split in SPLITS]
    everything = [value for values in lengths for value in values]
    low, high = min(everything) * 0.999, max(everything) * 1.001
    if high < 2.0 * low:
        low, high = low / 2.0, high * 2.0
    bins = np.geomspace(low, high, 30)
    right.hist(lengths, bins=bins, stacked=True, color=[COLOURS[split] for split in SPLITS])
    right.set_xscale("log")
    ticks = [t for t in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 3600) if low <= t <= high]
    right.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    right.set_xticks([], minor=True)
    right.set_xlabel("seconds of a clip", fontsize=9)
    right.set_ylabel("clips", fontsize=9)
    right.yaxis.get_major_locator().set_params(integer=True)
    for axis in (left, right):
        remove_spines(axis)
    return png(figure, DPI)


def spreads(motion_set: MotionSet) -> bytes:
    """Plot the distributions of scalars and parameters."""
    plt = pyplot()
    figure, axes = plt.subplots(3, 5, figsize=(10.0, 5.2), layout="constrained")
    samples = {split: sample(motion_set, split) for split in SPLITS}
    names = [*SCALARS, *PARAMETERS]
    for number, (axis, name) in enumerate(zip(axes.ravel(), names, strict=True)):
        scalar = number < len(SCALARS)
        column = number if scalar else number - len(SCALARS)
        low, high = (-2.0, 2.0) if name == "transition_pressure" else (0.0, 1.0)
        for split, rows in samples.items():
            values = (rows.scalars if scalar else rows.params)[:, column]
            if len(values):
                height, edges = np.histogram(np.clip(values, low, high), bins=40, range=(low, high))
                axis.stairs(height / len(values), edges, color=COLOURS[split], label=split, lw=1.2)
        axis.set_title(name.replace("_", " "), fontsize=9, color="#000" if scalar else "#555")
        axis.set_yticks([])
        axis.set_xlim(low, high)
        remove_spines(axis)
        axis.spines["left"].set_visible(False)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return png(figure, DPI)


def _colour(joint: int) -> str:
    left = (6, 7, 8, 9, 14, 15, 16, 17)
    return MIDDLE if joint < 6 else BLUE if joint in left else RED


def poses(motion_set: MotionSet, numbers: list[int]) -> bytes:
    """Draw a row of poses for each clip, seen from the front and a little from the side."""
    plt = pyplot()
    from matplotlib.collections import LineCollection

    figure, axes = plt.subplots(
        len(numbers), 1, figsize=(10.0, 1.75 * len(numbers)), layout="constrained", squeeze=False
    )
    for axis, number in zip(axes[:, 0], numbers, strict=True):
        clip = motion_set.clips[number]
        last = min(clip.frames, round(SECONDS * RATE)) - 1
        frames = np.linspace(0, last, POSES).round().astype(int)
        quats = motion_set.quats[clip.start + frames].astype(np.float64)
        place = _turned(positions(quats, upright=True), quats)
        # Feet on one line: only the pose is shown, not the path through the room.
        height = place[..., 1] - place[..., 1].min(axis=1, keepdims=True)
        spacing = 1.35 * np.arange(POSES)
        joints = np.stack([place[..., 0] + spacing[:, None], height], axis=-1)
        ends = [(parent, joint) for joint, parent in enumerate(PARENTS) if parent >= 0]
        # One collection for all limbs: an artist for each would take seconds.
        limbs, colours = joints[:, ends].reshape(-1, 2, 2), [_colour(joint) for _, joint in ends] * POSES
        axis.add_collection(LineCollection(list(limbs), colors=colours, linewidths=1.6, capstyle="round"))
        axis.plot(joints[:, 5, 0], joints[:, 5, 1] + 0.08, "o", color=MIDDLE, ms=4.5)
        for x, frame in zip(spacing, frames, strict=True):
            axis.text(x, -0.14, f"{frame / RATE:.1f} s", ha="center", va="top", fontsize=7)
        axis.set_aspect("equal")
        axis.set_xlim(-0.9, 1.35 * (POSES - 1) + 0.9)
        axis.set_ylim(-0.35, 2.05)
        axis.axis("off")
        missing = f", {len(clip.missing)} joints missing" if clip.missing else ""
        axis.set_title(f"{_name(clip)}{missing}", fontsize=9, loc="left", pad=2)
    return png(figure, DPI)


def _turned(place: Array, quats: Array) -> Array:
    """Turn positions (T, 22, 3) about the vertical, so that the first pose faces 25 degrees aside."""
    w, x, y, z = quats[0, 0]
    forward = np.array([2.0 * (x * z + w * y), 1.0 - 2.0 * (x * x + y * y)])
    angle = -np.arctan2(forward[0], forward[1]) - np.radians(25.0)
    c, s = np.cos(angle), np.sin(angle)
    turned = place.copy()
    turned[..., 0] = c * place[..., 0] + s * place[..., 2]
    turned[..., 2] = c * place[..., 2] - s * place[..., 0]
    # Seen from the front: the performer's left is on the right of the picture.
    return turned


def _name(clip: ClipEntry) -> str:
    targets = "sound" if clip.targets == "audio" else "teacher"
    return f"{clip.name}   ({clip.split}, subject {clip.subject}, {clip.frames / RATE:.1f} s, {targets})"


def course(motion_set: MotionSet, number: int) -> bytes:
    """Plot scalars, parameters and events of a clip over time."""
    plt = pyplot()
    clip, example = motion_set.clips[number], motion_set.example(number)
    frames = min(clip.frames, round(SECONDS * RATE))
    t = np.arange(frames) / RATE
    low, high = SCALAR_COLUMNS
    columns = [
        (
            (*SCALARS, "hips' height, m"),
            example.features[:frames, low : high + 1],
            "some of the inputs: scalars and height",
        ),
        (PARAMETERS, example.params[:frames], "targets: parameters, onsets, phrases"),
    ]
    figure, axes = plt.subplots(8, 2, figsize=(10.0, 5.4), sharex=True, layout="constrained")
    for side, (names, values, heading) in enumerate(columns):
        for row, axis in enumerate(axes[:, side]):
            low_limit, high_limit = (-2.0, 2.0) if names[row] == "transition_pressure" else (0.0, 1.0)
            if row == len(SCALARS) and side == 0:
                high_limit = max(1.0, float(np.ceil(values[:, row].max())))
            axis.plot(t, values[:, row], color="#222", lw=1.1)
            axis.set_ylim(
                low_limit - 0.05 * (high_limit - low_limit), high_limit + 0.05 * (high_limit - low_limit)
            )
            axis.set_yticks([low_limit, high_limit])
            axis.set_ylabel(
                names[row].replace("_", "\n").replace(" ", "\n", 1),
                rotation=0,
                ha="right",
                va="center",
                fontsize=8,
            )
            remove_spines(axis)
            axis.tick_params(labelsize=6)
            if side == 1:
                for times, colour, width in ((example.onsets, RED, 0.7), (example.phrases, BLUE, 1.6)):
                    for frame in times[times < frames]:
                        axis.axvline(frame / RATE, color=colour, lw=width, alpha=0.7)
        axes[0][side].set_title(heading, fontsize=9)
    for axis in axes[-1]:
        axis.set_xlabel("seconds", fontsize=8)
    figure.suptitle(_name(clip), fontsize=9, x=0.01, ha="left")
    return png(figure, DPI)
