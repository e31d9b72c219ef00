"""Takes for the evaluation of following, and simulated performances: tempo, stops, jumps, another suit."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pyanticip.errors import MotionError
from pyanticip.motion.load import load_motion
from pyanticip.vocabulary import RATE
from training.data.augment import posture, resample_at
from training.data.corrupt import sensor_noise
from training.data.manifest import MANIFEST, rows

Array = NDArray[np.float64]

MIN_TAKE_S: Final = 8.0
"""Minimum length of a take to perform."""
MAX_PERFORMANCE_S: Final = 60.0
"""Only this much of a take is performed."""
MAX_TEMPO: Final = 1.4
"""Tempi lie between the inverse of this and this."""
BLEND: Final = 15
"""Frames in which the pose changes from one to the other at a jump."""


@dataclass(frozen=True)
class Take:
    """A take on the canonical body at 50 Hz."""

    name: str
    person: str
    quats: NDArray[np.float32]
    """(T, 22, 4)."""


@dataclass(frozen=True)
class Performance:
    """A simulated performance of a take."""

    quats: NDArray[np.float32]
    """(T, 22, 4)."""
    place: Array
    """(T,) position in the take, seconds."""
    jumps: tuple[float, ...]
    """Times of the jumps, seconds."""
    stops: tuple[tuple[float, float], ...]
    """Start and end of the stops, seconds."""


def load(data: Path, name: str) -> NDArray[np.float32]:
    """Load the canonical rotations (T, 22, 4) of a file at 50 Hz."""
    return load_motion(data / name).retarget("humanoid").resample(RATE).quats


def names(data: Path) -> dict[str, str]:
    """Files of the folder and the person in each; of a motion in two formats, only the BVH.

    Raises:
        FormatError: there is no manifest in ``cmu`` or in ``more``.
    """
    people: dict[str, str] = {}
    for folder, column in (("cmu", "subject"), ("more", "person")):
        for row in rows(data / folder / MANIFEST, "file", column):
            name = f"{folder}/{row['file']}"
            if not name.endswith(".asf"):
                people[name] = row[column] if folder == "more" else f"cmu{row[column]}"
    duplicates = {name for name in people if name.endswith(".amc") and f"{name[:-4]}.bvh" in people}
    return {name: person for name, person in people.items() if name not in duplicates}


def takes(data: Path, wanted: Callable[[str], bool]) -> list[Take]:
    """All readable and long enough takes of the people for whom ``wanted`` is true."""
    result = []
    for name, person in names(data).items():
        if wanted(person):
            try:
                quats = load(data, name)
            except MotionError:
                continue  # manifests list a few invalid files on purpose
            if len(quats) >= MIN_TAKE_S * RATE:
                result.append(Take(name, person, quats))
    return result


def perform(quats: NDArray[np.float32], rng: np.random.Generator) -> Performance:
    """Simulate a performance: smoothly drifting tempo, random start, stops, and jumps ahead and back.

    Every 6 to 18 s there is a stop of 0.4 to 2 s or a jump of 2 to 6 s.
    """
    last = min(len(quats), round(MAX_PERFORMANCE_S * RATE)) - 1
    bound = np.log(MAX_TEMPO)
    base = rng.uniform(-0.7, 0.7) * bound
    swing = rng.uniform(0.0, 1.0) * (bound - abs(base))
    period, phase = rng.uniform(2.0, 8.0) * RATE, rng.uniform(0.0, 2.0 * np.pi)
    position = 0.0 if rng.random() < 0.6 else rng.uniform(0.0, 0.4) * last
    positions: list[float] = []
    jumps: list[int] = []
    stops: list[list[int]] = []
    event, stop_frames, moving = rng.uniform(4.0, 12.0) * RATE, 0, 1.0
    while position < last:
        now = len(positions)
        if now >= event:
            event = now + rng.uniform(6.0, 18.0) * RATE
            kind = int(rng.integers(3))
            target = position + (0.0, 1.0, -1.0)[kind] * rng.uniform(2.0, 6.0) * RATE
            if kind == 0:
                stop_frames = int(rng.uniform(0.4, 2.0) * RATE)
                stops.append([now, now + stop_frames])
            elif 0.0 <= target < last - 2.0 * RATE:
                position = target
                jumps.append(now)
        moving = max(0.0, moving - 0.1) if stop_frames > 0 else min(1.0, moving + 0.1)
        stop_frames -= 1
        positions.append(position)
        position += moving * float(np.exp(base + swing * np.sin(2.0 * np.pi * now / period + phase)))
    played = resample_at(quats, np.zeros((len(quats), 3)), np.array(positions))[0]
    for jump in jumps:
        stretch = slice(jump, jump + BLEND)
        new = played[stretch].copy()
        weight = (np.arange(1, len(new) + 1) / (BLEND + 1.0))[:, None, None]
        old = played[jump - 1] * np.sign((played[jump - 1] * new).sum(axis=-1, keepdims=True))
        mixed = (1.0 - weight) * old + weight * new
        played[stretch] = mixed / np.linalg.norm(mixed, axis=-1, keepdims=True)
    return Performance(
        played.astype(np.float32),
        np.array(positions) / RATE,
        tuple(jump / RATE for jump in jumps),
        tuple((start / RATE, stop / RATE) for start, stop in stops),
    )


SUITS: Final = ("as rehearsed", "noise", "another suit")


def as_suit_sees(quats: NDArray[np.float32], suit: str, rng: np.random.Generator) -> NDArray[np.float32]:
    """The performance as measured by a suit.

    Noise: every joint has a jitter of 1.5 degrees rms about each axis (some 2 cm at a hand) and a drift of 2.
    Another suit: all joints have a constant offset of 5 degrees rms, a jitter of 1 and a drift of 3.
    """
    if suit == SUITS[0]:
        return quats
    posed = quats if suit == SUITS[1] else posture(quats, float(np.radians(5.0)), rng)
    jitter, drift = (1.5, 2.0) if suit == SUITS[1] else (1.0, 3.0)
    noisy, _ = sensor_noise(
        posed,
        np.zeros((len(quats), 3)),
        np.ones(quats.shape[1], dtype=np.bool_),
        rng,
        jitter=float(np.radians(jitter)),
        drift=float(np.radians(drift)),
    )
    return noisy.astype(np.float32)
