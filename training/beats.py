"""How far beats can be trusted, and how early they can be known: several definitions side by side.

A beat that moves when the movement is disturbed imperceptibly is nothing that a performer did, and one that
only the next second of the movement decides about cannot be announced by anybody. So each definition is asked

* whether its beats stay where they are when every joint is turned by a little noise (:func:`agreement`),
* how much of the true future it needs to be told so that its beats can be announced in time
  (:func:`foreseen`): the bound for whoever forecasts poses, however well.

    python -m training.beats --data ../shared/data
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.signal import find_peaks, peak_widths

from training.data.corrupt import sensor_noise
from training.data.examples import Split, at_rate, load_split
from training.evaluate.categories import CATEGORIES, group_of, read_categories
from training.evaluate.events import TOLERANCE_FRAMES, Announcements, score_clip, total
from training.tasks.motion.scores import EventScore
from training.teacher import handmade as teacher
from training.teacher.descriptors import ENDS, FAST_HZ, MOTION_HZ
from training.teacher.filters import RATE, derivative, smooth
from training.teacher.kinematics import Array, check_quats, positions

Beats = Callable[[Array], NDArray[np.int64]]
"""Finds the frames of beats in the smoothed speed (T,) of the ends of the body, m/s."""

PROMINENCE: Final = 0.4
"""Octaves that the speed must rise on both sides of a trough."""
DEPTH: Final = 0.5
"""Share of its prominence up to which a trough is followed to both sides for its middle."""

SIDES: Final[tuple[Split, ...]] = ("train", "validation")
KNOWN_MS: Final = (100, 200, 300, 400, 500)
LEAD_FRAMES: Final = 5
LAST: Final = 24
"""Frames before a cut in which the speed differs from that of the whole clip, and more."""
PAST: Final = 250
"""Frames before a cut in which beats are looked for."""


def ends_of(quats: NDArray[np.floating]) -> Array:
    """Positions (T, 5, 3) of the ends of the body, metres."""
    return positions(check_quats(quats), upright=True)[:, ENDS]


def speed_of(ends: Array) -> Array:
    """The smoothed speed (T,) that the teacher looks at, m/s."""
    power = (derivative(smooth(ends, MOTION_HZ)) ** 2).sum(axis=-1).mean(axis=1)
    return np.sqrt(np.maximum(smooth(power, FAST_HZ), 0.0))


def lowest_frames(
    speed: Array, prominence: float = PROMINENCE, floor: float = teacher.ONSET_FLOOR
) -> NDArray[np.int64]:
    """Beats as version 1 of the teacher had them: the lowest frame of each trough.

    Args:
        speed: (T,) m/s.
        prominence: octaves that the speed must rise on both sides.
        floor: m/s added to it before octaves are counted.
    """
    curve = -np.log2(speed + floor)
    return np.asarray(find_peaks(curve, prominence=prominence, distance=teacher.ONSET_GAP)[0], dtype=np.int64)


def middles(
    speed: Array, prominence: float = PROMINENCE, floor: float = teacher.ONSET_FLOOR
) -> NDArray[np.int64]:
    """Beats as version 2 of the teacher had them: the middle of each trough at half its depth."""
    lowest = lowest_frames(speed, prominence, floor)
    if not len(lowest):
        return lowest
    _, _, left, right = peak_widths(-np.log2(speed + floor), lowest, rel_height=DEPTH)
    return np.asarray(np.floor(0.5 * (left + right) + 0.5), dtype=np.int64)


def peaks(speed: Array, prominence: float = teacher.ONSET_FALL) -> NDArray[np.int64]:
    """The middles of the peaks of the speed."""
    found = middles(1.0 / (speed + teacher.ONSET_FLOOR), prominence, 0.0)
    return found


def arrivals(
    speed: Array, fall: float = teacher.ONSET_FALL, least: float = teacher.ONSET_SPEED
) -> NDArray[np.int64]:
    """Beats as the teacher has them: the arrivals of strokes (:func:`training.teacher.handmade.arrivals`).

    Args:
        speed: (T,) m/s.
        fall: octaves, counted above the teacher's floor.
        least: m/s that its highest must have reached, or it was no stroke.
    """
    found = teacher.arrivals(np.log2(speed + teacher.ONSET_FLOOR), fall, least, teacher.ONSET_GAP)
    return np.array([frame for frame, _ in found], dtype=np.int64)


DEFINITIONS: Final[Mapping[str, Beats]] = {
    "lowest frame of a trough (teacher 1)": lowest_frames,
    "middle of a trough (teacher 2)": middles,
    "... 0.8 octaves deep": partial(middles, prominence=0.8),
    "... above a floor of 0.25 m/s": partial(middles, floor=0.25),
    "peak": peaks,
    "arrival of any stroke": partial(arrivals, least=0.0),
    "arrival (teacher 3)": arrivals,
}
OTHER_FALLS: Final = (0.15, 0.2, 0.25, 0.35, 0.4, 0.5)


def shaken(quats: NDArray[np.floating], degrees: float, rng: np.random.Generator) -> NDArray[np.floating]:
    """The movement (T, 22, 4) with every joint turned at random about each axis, anew in every frame.

    Args:
        quats: canonical rotations at 50 Hz.
        degrees: standard deviation.
        rng: where the noise is drawn from.
    """
    still, all_joints = np.zeros((len(quats), 3)), np.ones(quats.shape[1], dtype=np.bool_)
    return sensor_noise(quats, still, all_joints, rng, jitter=np.radians(degrees), drift=0.0)[0]


def agreement(speeds: Sequence[Array], noisy: Sequence[Array], beats: Beats) -> EventScore:
    """Beats of disturbed clips judged, within 50 ms, by those of the clips as they are."""
    scores = []
    for speed, other in zip(speeds, noisy, strict=True):
        found = beats(other).astype(np.float64)
        scores.append(score_clip(Announcements(found, found), beats(speed), len(speed))[0])
    return total(scores)


def cut_short(ends: Array) -> Array:
    """(T, LAST): the speed in the last frames up to each frame, if the clip ended with it; NaN before its
    beginning."""
    found = np.full((len(ends), LAST), np.nan)
    for cut in range(len(ends)):
        tail = speed_of(ends[max(cut + 1 - 2 * LAST, 0) : cut + 1])[-LAST:]
        found[cut, LAST - len(tail) :] = tail
    return found


def known_at(speed: Array, cut: Array, beats: Beats) -> list[Array]:
    """For each frame the beats (frames) that are found in the clip if it ends with that frame.

    Args:
        speed: (T,) of the whole clip.
        cut: what :func:`cut_short` says of it.
        beats: finds them.
    """
    known = []
    for frame, tail in enumerate(cut):
        begin, inside = max(frame - PAST, 0), min(LAST, frame + 1)
        seen = np.concatenate([speed[begin : frame + 1 - inside], tail[LAST - inside :]])
        known.append(begin + beats(seen).astype(np.float64))
    return known


def foreseen(known: Sequence[Array], ahead: int, lead: int = LEAD_FRAMES) -> Announcements:
    """What somebody can announce ``lead`` frames before it who knows the next ``ahead`` frames exactly.

    Each beat is decided as late as the lead allows, when the most is known of what comes after it.
    """
    decided, times, last = [], [], -np.inf
    for now in range(len(known) - ahead):
        for beat in known[now + ahead].tolist():
            if now + lead <= beat <= now + lead + TOLERANCE_FRAMES and beat > last + teacher.ONSET_GAP:
                decided.append(float(now))
                times.append(beat)
                last = beat
    return Announcements(np.array(decided), np.array(times))


def described(
    ends: Sequence[Array],
    speeds: Sequence[Array],
    noisy: Sequence[Array],
    beats: Beats,
    cuts: Sequence[Array],
) -> str:
    """A line about a definition on some clips; without ``cuts`` nothing about what can be known."""
    true = [beats(speed) for speed in speeds]
    edge = teacher.EDGE
    inner = [np.sum((t >= edge) & (t < len(s) - edge)) for t, s in zip(true, speeds, strict=True)]
    seconds = sum(max(len(speed) - 2 * edge, 0) for speed in speeds) / RATE
    apart = np.concatenate([np.diff(t) for t in true] + [np.zeros(0)]) * 1000.0 / RATE
    quartiles = np.quantile(apart, [0.25, 0.5, 0.75]).round().astype(int).tolist() if len(apart) else "-"
    line = f"{sum(inner)} beats, {sum(inner) / seconds:.2f} a second, {quartiles} ms apart"
    line += f", F1 in noise {agreement(speeds, noisy, beats).f1:.2f}"
    if cuts:
        known = [known_at(speed, cut, beats) for speed, cut in zip(speeds, cuts, strict=True)]
        cells = []
        for ms in KNOWN_MS:
            told = [foreseen(k, round(ms * RATE / 1000.0)) for k in known]
            pairs = zip(told, true, ends, strict=True)
            score = total([score_clip(said, t, len(e), LEAD_FRAMES)[0] for said, t, e in pairs])
            cells.append(f"{score.f1:.2f}")
        line += f", F1 knowing {', '.join(map(str, KNOWN_MS))} ms: {' '.join(cells)}"
    return line


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables of ``docs/experiments/beats.md``."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of CMU takes, or its parent")
    parser.add_argument("--cache", type=Path, help="folder where retargeted motion is kept")
    parser.add_argument("--degrees", type=float, default=0.5, help="noise of every joint, degrees")
    parser.add_argument("--split", choices=(*SIDES, "test"), nargs="+", default=SIDES)
    parser.add_argument("--falls", action="store_true", help="arrivals with other falls instead, noise alone")
    given = parser.parse_args(arguments)
    definitions: dict[str, Beats] = dict(DEFINITIONS)
    if given.falls:
        falls = sorted((teacher.ONSET_FALL, *OTHER_FALLS))
        definitions = {f"fall of {f:g}": partial(arrivals, fall=f) for f in falls}
    categories = read_categories(given.data)
    for side in given.split:
        rng = np.random.default_rng(0)
        pieces = [at_rate(piece) for piece in load_split(given.data, side, given.cache)]
        for category in CATEGORIES:
            clips = [p.quats for p in pieces if group_of(p.name, categories) == category]
            if not clips:
                continue
            ends = [ends_of(quats) for quats in clips]
            speeds = [speed_of(e) for e in ends]
            noisy = [speed_of(ends_of(shaken(quats, given.degrees, rng))) for quats in clips]
            quiet, loud = np.concatenate(speeds), np.concatenate(noisy)
            added = np.sqrt(np.median(np.maximum(loud**2 - quiet**2, 0.0)))
            print(f"{side}, {category}: speed {np.median(quiet):.2f} m/s, noise adds {added:.2f} m/s")
            cuts = [] if given.falls else [cut_short(e) for e in ends]
            for name, beats in definitions.items():
                print(f"  {name}: {described(ends, speeds, noisy, beats, cuts)}", flush=True)


if __name__ == "__main__":
    main()
