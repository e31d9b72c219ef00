"""How far a teacher's beats can be trusted: do they stay when the movement is disturbed imperceptibly?"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.signal import find_peaks

from training.corrupt import sensor_noise
from training.data import Split, load_split, plain
from training.descriptors import ENDS, FAST_HZ, MOTION_HZ
from training.evaluation.categories import CATEGORIES, group_of, read_categories
from training.evaluation.events import Announcements, score_clip, total
from training.filters import derivative, smooth
from training.kinematics import check_quats, positions
from training.scores import EventScore
from training.teacher import ONSET_FLOOR, ONSET_GAP, ONSET_PROMINENCE, teach

Beats = Callable[[NDArray[np.floating]], NDArray[np.int64]]

SIDES: Final[tuple[Split, ...]] = ("train", "validation")


def lowest_frames(quats: NDArray[np.floating]) -> NDArray[np.int64]:
    """Beats as version 1 of the teacher had them: the lowest frame of each trough of the ends' speed."""
    place = positions(check_quats(quats), upright=True)
    velocity = derivative(smooth(place, MOTION_HZ))[:, ENDS]
    speed2 = smooth((velocity**2).sum(axis=-1).mean(axis=1), FAST_HZ)
    curve = np.log2(np.sqrt(np.maximum(speed2, 0.0)) + ONSET_FLOOR)
    return np.asarray(find_peaks(-curve, prominence=ONSET_PROMINENCE, distance=ONSET_GAP)[0], dtype=np.int64)


def middles(quats: NDArray[np.floating]) -> NDArray[np.int64]:
    """Beats as the teacher has them: the middle of each trough."""
    return teach(quats).times("onset")


def agreement(
    clips: Sequence[NDArray[np.floating]], beats: Beats, degrees: float, rng: np.random.Generator
) -> EventScore:
    """Beats of disturbed clips (T, 22, 4) judged, within 50 ms, by those of the clips as they are.

    Args:
        clips: canonical rotations at 50 Hz.
        beats: finds them.
        degrees: standard deviation of every joint's turn about each axis, independent in every frame.
        rng: where it is drawn from.
    """
    scores = []
    for quats in clips:
        noisy, _ = sensor_noise(
            quats,
            np.zeros((len(quats), 3)),
            np.ones(quats.shape[1], dtype=np.bool_),
            rng,
            jitter=np.radians(degrees),
            drift=0.0,
        )
        found = beats(noisy).astype(np.float64)
        scores.append(score_clip(Announcements(found, found), beats(quats), len(quats))[0])
    return total(scores)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table of ``docs/teacher.md``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of CMU takes, or its parent")
    parser.add_argument("--degrees", type=float, default=0.5, help="noise of every joint, degrees")
    parser.add_argument("--split", choices=(*SIDES, "test"), nargs="+", default=SIDES)
    given = parser.parse_args(arguments)
    categories = read_categories(given.data)
    for side in given.split:
        examples = [plain(piece) for piece in load_split(given.data, side)]
        for category in CATEGORIES:
            clips = [e.quats for e in examples if group_of(e.name, categories) == category]
            for name, beats in (("lowest frame", lowest_frames), ("middle", middles)) if clips else ():
                score = agreement(clips, beats, given.degrees, np.random.default_rng(0))
                print(f"{side}, {category}, {name}: F1 {score.f1:.2f} ({score.true} beats)")


if __name__ == "__main__":
    main()
