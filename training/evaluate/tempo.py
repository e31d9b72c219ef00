"""``pyanticip evaluate tempo``: the live tempo tracker and two baselines against steps counted at the feet.

Steps are counted offline, from data that the tracker does not use: the positions of ankles and toes over the
whole clip. A step is where one foot passes the other along the heading. Unlike a foot's landing, that moment
has sub-frame resolution and needs no threshold, which matters while somebody speeds up or slows down. A foot
has landed when its speed in the room falls below 0.3 of the fastest (95 % quantile of both feet) after it
exceeded 0.5. The tempo around a moment is the slope of a line through the five nearest steps; if their
intervals differ by more than 30 %, there is no tempo. For kinds of movement without a gait the beats are the
teacher's onsets (``docs/teacher.md``), and the figures are for information only.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d

from pyanticip import _core
from pyanticip.vocabulary import RATE
from training.evaluate.extrapolator import joint_positions, past_events, speed_curve
from training.evaluate.takes import KINDS, STRIDE, Clip, Takes, heading
from training.report.tables import table
from training.teacher.kinematic_targets import ONSET_FALL
from training.teacher.kinematics import check_quats, positions

Array = NDArray[np.float64]

GAIT: Final = ("walking", "styled walk", "running")
"""Kinds in which steps are counted."""
SKIP_S: Final = (1.5, 3.0)
"""Time at the beginning of a clip that is not evaluated."""
TOLERANCE: Final = 0.03
"""Maximum relative deviation from the true tempo."""
MIN_TRUST: Final = 0.5
"""Trust from which the tracker's tempo counts as trusted."""

_NEAREST: Final = 5
"""Beats that a tempo is fitted to."""
_MAX_RATIO: Final = 1.3
"""Maximum ratio of the intervals between these beats."""
_LAGS: Final = (12, 60)
"""Shortest and longest period of the whole-clip baseline, frames."""
_FEET: Final = ((16, 17), (20, 21))
"""Ankle and toe of each foot."""


def steps(clip: Clip) -> Array:
    """Fractional frames at which a foot passes the other, ascending."""
    difference = np.subtract(*_feet(clip).swapaxes(0, 1))
    yaw = heading(clip.example.quats)
    return passes(np.sin(yaw) * difference[:, 0] + np.cos(yaw) * difference[:, 2])


def passes(along: Array) -> Array:
    """Zero crossings of a curve between excursions beyond ``STRIDE`` on opposite sides."""
    crossings, crossed = [], 0.0
    previous, side = 0.0, 0.0
    for frame, value in enumerate(along):
        if (previous < 0.0) != (value < 0.0):
            crossed = frame - value / (value - previous)
        if abs(value) > STRIDE:
            if side * value < 0.0:
                crossings.append(crossed)
            side = value
        previous = value
    return np.array(crossings, dtype=np.float64)


def landings(clip: Clip) -> Array:
    """Frames at which a foot lands, ascending."""
    speed = np.linalg.norm(np.gradient(_feet(clip), axis=0), axis=2) * RATE
    fastest = np.percentile(speed, 95)
    return np.sort(np.concatenate([_falls(foot, 0.5 * fastest, 0.3 * fastest) for foot in speed.T]))


def _feet(clip: Clip) -> Array:
    """Positions of the feet in the room, (T, 2, 3)."""
    place = positions(check_quats(clip.example.quats), upright=True) + _root(clip)[:, None]
    feet = np.stack([place[:, joints].mean(axis=1) for joints in map(list, _FEET)], axis=1)
    return np.asarray(gaussian_filter1d(feet, 1.0, axis=0, mode="nearest"))


def _root(clip: Clip) -> Array:
    """Positions of the hips at 50 Hz, (T, 3)."""
    at = np.arange(len(clip.example)) * clip.piece.rate / RATE
    known = np.arange(len(clip.piece.root))
    return np.stack([np.interp(at, known, axis) for axis in clip.piece.root.T], axis=1)


def _falls(speed: Array, high: float, low: float) -> Array:
    """Frames at which a speed falls below ``low`` after exceeding ``high``."""
    falls, fast = [], bool(speed[0] > high)
    for frame, value in enumerate(speed):
        if fast and value < low:
            falls.append(frame)
        fast = value > high or (fast and value >= low)
    return np.array(falls, dtype=np.float64)


def tempo_around(beats: Array, frames: int) -> Array:
    """Beats per minute (T,) around each frame from the nearest beats; NaN where they are irregular."""
    out = np.full(frames, np.nan)
    if len(beats) < _NEAREST - 1:
        return out
    for frame in range(frames):
        nearest = np.sort(np.argsort(np.abs(beats - frame), kind="stable")[:_NEAREST])
        intervals = np.diff(beats[nearest])
        inside = beats[nearest[0]] - intervals[0] / 2 <= frame <= beats[nearest[-1]] + intervals[-1]
        if inside and intervals.max() <= _MAX_RATIO * intervals.min():
            out[frame] = 60.0 * RATE / np.polyfit(nearest, beats[nearest], 1)[0]
    return out


def by_tracker(clip: Clip) -> Array:
    """Output of the live tracker (T, 3): beats per minute, phase, trust."""
    return _core.TempoTracker().push_many(np.ascontiguousarray(clip.example.features))


def by_whole_clip(clip: Clip) -> Array:
    """Beats per minute (T,) by the highest autocorrelation of the speed over the whole clip: not causal."""
    curve = _curve(clip)
    lags = np.arange(_LAGS[0] - 1, max(min(_LAGS[1], len(curve) // 2), _LAGS[0]) + 2)
    correlation = np.array([np.corrcoef(curve[lag:], curve[:-lag])[0, 1] for lag in lags])
    before, here, after = correlation[:-2], correlation[1:-1], correlation[2:]
    peaks = np.where((here > before) & (here >= after), here, -np.inf)
    best = int(np.argmax(peaks if np.isfinite(peaks).any() else here))
    return np.full(len(curve), 60.0 * RATE / float(lags[1 + best]))


def by_last_onsets(clip: Clip) -> Array:
    """Beats per minute (T,) by the median of the last four intervals between the onsets confirmed so far."""
    curve = _curve(clip)
    onsets, confirmed = past_events(curve, 0, ONSET_FALL)
    out = np.full(len(curve), np.nan)
    for frame in range(len(curve)):
        known = onsets[confirmed <= frame][-5:]
        if len(known) > 1:
            out[frame] = 60.0 * RATE / max(float(np.median(np.diff(known))), 1.0)
    return out


def _curve(clip: Clip) -> Array:
    return speed_curve(joint_positions(clip.example.quats), 0, 0.02, 0.04)


SYSTEMS: Final = ("tracker", "whole clip", "last onsets")


def judge(clips: Sequence[Clip]) -> list[dict[str, Any]]:
    """Evaluate tempo; one line for each kind of movement, skipped beginning, and system.

    ``frames`` are those with a true tempo; ``within`` is the share of them with the right tempo, ``octave``
    with half and double allowed. For the tracker also: ``trusted``, the share of all frames that it trusts;
    ``within_trusted``; ``phase_ms``, the median delay of its beat after the teacher's onsets where it
    trusts, and ``spread_ms``, the median deviation from that; ``down_ms``, the median delay of landings
    after its beat.
    """
    lines = []
    for kind in KINDS:
        members = [clip for clip in clips if clip.kind == kind]
        if not members:
            continue
        beats = [
            steps(c) if kind in GAIT else np.asarray(c.example.onsets, dtype=np.float64) for c in members
        ]
        true_tempi = [tempo_around(b, len(c.example)) for b, c in zip(beats, members, strict=True)]
        tracked = [by_tracker(clip) for clip in members]
        guesses = [
            [t[:, 0], by_whole_clip(c), by_last_onsets(c)] for t, c in zip(tracked, members, strict=True)
        ]
        for skip_s in SKIP_S:
            for number, system in enumerate(SYSTEMS):
                tempi = [guess[number] for guess in guesses]
                line = {
                    "kind": kind,
                    "after_s": skip_s,
                    "who": system,
                    **_shares(tempi, true_tempi, tracked, skip_s),
                }
                if number == 0:
                    line |= _phases(tracked, [np.asarray(c.example.onsets) for c in members], skip_s)
                    if kind in GAIT:
                        line["down_ms"] = -_phases(tracked, [landings(c) for c in members], skip_s)[
                            "phase_ms"
                        ]
                lines.append(line)
    return lines


def _shares(
    tempi: Sequence[Array], true_tempi: Sequence[Array], tracked: Sequence[Array], skip_s: float
) -> dict[str, Any]:
    begin = round(skip_s * RATE)
    guess, true, trust = (
        np.concatenate([part[begin:] for part in parts])
        for parts in (tempi, true_tempi, [t[:, 2] for t in tracked])
    )
    known = np.isfinite(true)
    is_right = [np.abs(guess[known] * factor / true[known] - 1.0) <= TOLERANCE for factor in (1.0, 0.5, 2.0)]
    trusted = trust >= MIN_TRUST
    return {
        "frames": int(known.sum()),
        "within": _share(is_right[0]),
        "octave": _share(is_right[0] | is_right[1] | is_right[2]),
        "trusted": _share(trusted),
        "within_trusted": _share(is_right[0][trusted[known]]),
    }


def _phases(tracked: Sequence[Array], beats: Sequence[NDArray[Any]], skip_s: float) -> dict[str, float]:
    delays = []
    for tempo, times in zip(tracked, beats, strict=True):
        for frame in times.astype(int):
            bpm, phase, trust = tempo[min(frame, len(tempo) - 1)]
            if frame >= skip_s * RATE and trust >= MIN_TRUST:
                delays.append(-((phase + 0.5) % 1.0 - 0.5) * 60_000.0 / bpm)
    if not delays:
        return {"phase_ms": np.nan, "spread_ms": np.nan}
    median = float(np.median(delays))
    return {"phase_ms": median, "spread_ms": float(np.median(np.abs(np.array(delays) - median)))}


def _share(hits: NDArray[np.bool_]) -> float:
    return float(hits.mean()) if len(hits) else float("nan")


def evaluate(data: Path, split: str, cache: Path | None = None) -> dict[str, Any]:
    """Evaluate one split.

    Args:
        data: a set, or a folder of takes.
        split: train, validation or test.
        cache: cache folder for sets.
    """
    clips = Takes(data, cache).held_out_clips(split)
    return {"split": split, "people": sorted({clip.person for clip in clips}), "lines": judge(clips)}


HEAD: Final = (
    "kind, seconds",
    "frames",
    *SYSTEMS,
    "octave",
    "trusted",
    "within, trusted",
    "beat",
    "foot down",
)


def _number(value: float, digits: str, unit: str = "") -> str:
    """Format a number for the table; a dash if it is not finite."""
    return f"{value:{digits}}{unit}" if np.isfinite(value) else "-"


def markdown(report: dict[str, Any]) -> str:
    """The report as a Markdown table: shares of frames within 3 % by system, then figures of the tracker."""
    rows = []
    lines = report["lines"]
    for at in range(0, len(lines), len(SYSTEMS)):
        tracker, *baselines = lines[at : at + len(SYSTEMS)]
        rows.append(
            [
                f"{tracker['kind']}, after {tracker['after_s']:g}",
                str(tracker["frames"]),
                *(_number(line["within"], ".3f") for line in (tracker, *baselines)),
                _number(tracker["octave"], ".3f"),
                _number(tracker["trusted"], ".2f"),
                _number(tracker["within_trusted"], ".3f"),
                _number(tracker["phase_ms"], "+.0f", f" ± {tracker['spread_ms']:.0f} ms"),
                _number(tracker.get("down_ms", np.nan), "+.0f", " ms"),
            ]
        )
    people = f"Side: {report['split']}. People: {', '.join(report['people'])}.\n\n"
    return people + table(HEAD, rows)
