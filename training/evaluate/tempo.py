"""The tempo that a body keeps, judged: the live tracker beside two rivals, against steps counted by the feet.

Steps are counted offline, in nothing that the tracker sees: the places of ankle and toe over the whole clip.
There is a step each time that a foot passes the other along the heading. That moment lies between frames and
depends on no threshold, as that of a foot's coming down does while somebody gathers or loses speed. A foot
has come down when its speed in the room, having been over half of the fastest (95 % quantile of both feet),
falls below three tenths. The tempo around a moment is the slope of the line through the five steps nearest
to it; where their intervals differ by more than 30 % there is none to be right about. Of kinds of movement
without a gait the beats are the teacher's onsets (``docs/teacher.md``), and the figures are no more than
information.
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
AFTER: Final = (1.5, 3.0)
"""Seconds into a clip from which on frames are judged."""
WITHIN: Final = 0.03
"""How far from the steps' tempo is right."""
TRUSTED: Final = 0.5

_NEAR: Final = 5
_REGULAR: Final = 1.3
_LAGS: Final = (12, 60)
_FEET: Final = ((16, 17), (20, 21))


def steps(clip: Clip) -> Array:
    """Frames, with a part, at which a foot passes the other, in order."""
    apart = np.subtract(*_feet(clip).swapaxes(0, 1))
    yaw = heading(clip.example.quats)
    return passes(np.sin(yaw) * apart[:, 0] + np.cos(yaw) * apart[:, 2])


def passes(along: Array) -> Array:
    """Where a curve crosses zero between two of its stretches farther than ``STRIDE`` on either side."""
    found, crossed = [], 0.0
    before, side = 0.0, 0.0
    for frame, here in enumerate(along):
        if (before < 0.0) != (here < 0.0):
            crossed = frame - here / (here - before)
        if abs(here) > STRIDE:
            if side * here < 0.0:
                found.append(crossed)
            side = here
        before = here
    return np.array(found, dtype=np.float64)


def landings(clip: Clip) -> Array:
    """Frames at which a foot has come down, in order."""
    speed = np.linalg.norm(np.gradient(_feet(clip), axis=0), axis=2) * RATE
    fastest = np.percentile(speed, 95)
    return np.sort(np.concatenate([_falls(foot, 0.5 * fastest, 0.3 * fastest) for foot in speed.T]))


def _feet(clip: Clip) -> Array:
    """Where the feet are in the room, (T, 2, 3)."""
    place = positions(check_quats(clip.example.quats), upright=True) + _root(clip)[:, None]
    feet = np.stack([place[:, joints].mean(axis=1) for joints in map(list, _FEET)], axis=1)
    return np.asarray(gaussian_filter1d(feet, 1.0, axis=0, mode="nearest"))


def _root(clip: Clip) -> Array:
    """Where the hips are at 50 Hz, (T, 3)."""
    at = np.arange(len(clip.example)) * clip.piece.rate / RATE
    known = np.arange(len(clip.piece.root))
    return np.stack([np.interp(at, known, axis) for axis in clip.piece.root.T], axis=1)


def _falls(speed: Array, high: float, low: float) -> Array:
    """Frames at which a speed falls below ``low`` after it was over ``high``."""
    found, fast = [], bool(speed[0] > high)
    for frame, value in enumerate(speed):
        if fast and value < low:
            found.append(frame)
        fast = value > high or (fast and value >= low)
    return np.array(found, dtype=np.float64)


def tempo_around(beats: Array, frames: int) -> Array:
    """Beats a minute (T,) around each frame by the beats near it; NaN where they keep no tempo."""
    out = np.full(frames, np.nan)
    if len(beats) < _NEAR - 1:
        return out
    for frame in range(frames):
        near = np.sort(np.argsort(np.abs(beats - frame), kind="stable")[:_NEAR])
        apart = np.diff(beats[near])
        inside = beats[near[0]] - apart[0] / 2 <= frame <= beats[near[-1]] + apart[-1]
        if inside and apart.max() <= _REGULAR * apart.min():
            out[frame] = 60.0 * RATE / np.polyfit(near, beats[near], 1)[0]
    return out


def by_tracker(clip: Clip) -> Array:
    """What the live tracker tells, (T, 3)."""
    return _core.TempoTracker().push_many(np.ascontiguousarray(clip.example.features))


def by_whole_clip(clip: Clip) -> Array:
    """Beats a minute (T,) by the highest autocorrelation of the speed of the whole clip: no live rival."""
    curve = _curve(clip)
    lags = np.arange(_LAGS[0] - 1, max(min(_LAGS[1], len(curve) // 2), _LAGS[0]) + 2)
    like = np.array([np.corrcoef(curve[lag:], curve[:-lag])[0, 1] for lag in lags])
    before, here, after = like[:-2], like[1:-1], like[2:]
    peaks = np.where((here > before) & (here >= after), here, -np.inf)
    best = int(np.argmax(peaks if np.isfinite(peaks).any() else here))
    return np.full(len(curve), 60.0 * RATE / float(lags[1 + best]))


def by_last_onsets(clip: Clip) -> Array:
    """Beats a minute (T,) by the median of the last four intervals between arrivals known by then."""
    curve = _curve(clip)
    at, confirmed = past_events(curve, 0, ONSET_FALL)
    out = np.full(len(curve), np.nan)
    for frame in range(len(curve)):
        known = at[confirmed <= frame][-5:]
        if len(known) > 1:
            out[frame] = 60.0 * RATE / max(float(np.median(np.diff(known))), 1.0)
    return out


def _curve(clip: Clip) -> Array:
    return speed_curve(joint_positions(clip.example.quats), 0, 0.02, 0.04)


WHO: Final = ("tracker", "whole clip", "last onsets")


def judge(clips: Sequence[Clip]) -> list[dict[str, Any]]:
    """A line for each kind of movement, moment from which on it is judged, and who judges.

    ``frames`` are those with a tempo around them; ``within`` is the share of them that is right,
    ``octave`` with half and double allowed. Of the tracker besides: ``trusted``, the share of all frames
    that it trusts; ``within_trusted``; ``phase_ms``, the median of how late its beat is against the
    teacher's onsets where it trusts, and ``spread_ms``, the median deviation from that; ``down_ms``, the
    median of how much later than its beat a foot has come down.
    """
    lines = []
    for kind in KINDS:
        mine = [clip for clip in clips if clip.kind == kind]
        if not mine:
            continue
        beats = [steps(c) if kind in GAIT else np.asarray(c.example.onsets, dtype=np.float64) for c in mine]
        wanted = [tempo_around(b, len(c.example)) for b, c in zip(beats, mine, strict=True)]
        tracked = [by_tracker(clip) for clip in mine]
        guesses = [[t[:, 0], by_whole_clip(c), by_last_onsets(c)] for t, c in zip(tracked, mine, strict=True)]
        for after in AFTER:
            for number, who in enumerate(WHO):
                found = [guess[number] for guess in guesses]
                line = {"kind": kind, "after_s": after, "who": who, **_right(found, wanted, tracked, after)}
                if number == 0:
                    line |= _phases(tracked, [np.asarray(c.example.onsets) for c in mine], after)
                    if kind in GAIT:
                        line["down_ms"] = -_phases(tracked, [landings(c) for c in mine], after)["phase_ms"]
                lines.append(line)
    return lines


def _right(
    found: Sequence[Array], wanted: Sequence[Array], tracked: Sequence[Array], after: float
) -> dict[str, Any]:
    begin = round(after * RATE)
    guess, true, trust = (
        np.concatenate([part[begin:] for part in parts])
        for parts in (found, wanted, [t[:, 2] for t in tracked])
    )
    known = np.isfinite(true)
    off = [np.abs(guess[known] * factor / true[known] - 1.0) <= WITHIN for factor in (1.0, 0.5, 2.0)]
    trusted = trust >= TRUSTED
    return {
        "frames": int(known.sum()),
        "within": _share(off[0]),
        "octave": _share(off[0] | off[1] | off[2]),
        "trusted": _share(trusted),
        "within_trusted": _share(off[0][trusted[known]]),
    }


def _phases(tracked: Sequence[Array], beats: Sequence[NDArray[Any]], after: float) -> dict[str, float]:
    late = []
    for tempo, times in zip(tracked, beats, strict=True):
        for at in times.astype(int):
            bpm, phase, trust = tempo[min(at, len(tempo) - 1)]
            if at >= after * RATE and trust >= TRUSTED:
                late.append(-((phase + 0.5) % 1.0 - 0.5) * 60_000.0 / bpm)
    if not late:
        return {"phase_ms": np.nan, "spread_ms": np.nan}
    middle = float(np.median(late))
    return {"phase_ms": middle, "spread_ms": float(np.median(np.abs(np.array(late) - middle)))}


def _share(hits: NDArray[np.bool_]) -> float:
    return float(hits.mean()) if len(hits) else float("nan")


def evaluate(data: Path, split: str, cache: Path | None = None) -> dict[str, Any]:
    """Judge the people of one side.

    Args:
        data: a set, or a folder of takes.
        split: train, validation or test.
        cache: where the set is built.
    """
    clips = Takes(data, cache).strangers(split)
    return {"split": split, "people": sorted({clip.person for clip in clips}), "lines": judge(clips)}


HEAD: Final = ("kind, seconds", "frames", *WHO, "octave", "trusted", "within, trusted", "beat", "foot down")


def _number(value: float, digits: str, unit: str = "") -> str:
    """As it stands in the table; a dash where it is of nothing."""
    return f"{value:{digits}}{unit}" if np.isfinite(value) else "-"


def markdown(report: dict[str, Any]) -> str:
    """The report as a table: share of frames within 3 % by each, then of the tracker alone."""
    rows = []
    lines = report["lines"]
    for at in range(0, len(lines), len(WHO)):
        tracker, *baselines = lines[at : at + len(WHO)]
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
