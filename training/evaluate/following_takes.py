"""Takes to follow, and how they are played again: other tempi, stops, skips, repeats, a worse suit."""

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

LONG: Final = 8.0
"""Seconds that a take to be played again has at least."""
LONGEST: Final = 60.0
"""Only so many seconds of it are played."""
TEMPO: Final = 1.4
"""Tempi lie between one over this and this."""
BLEND: Final = 15
"""Frames in which who skips gets from one pose to the other."""


@dataclass(frozen=True)
class Take:
    """A take of somebody, on the canonical body at 50 Hz."""

    name: str
    person: str
    quats: NDArray[np.float32]
    """(T, 22, 4)."""


@dataclass(frozen=True)
class Performance:
    """A take played again."""

    quats: NDArray[np.float32]
    """(T, 22, 4)."""
    place: Array
    """(T,) seconds in the take."""
    jumps: tuple[float, ...]
    """When it jumped, seconds."""
    stops: tuple[tuple[float, float], ...]
    """When it stood still, from and to, seconds."""


def load(data: Path, name: str) -> NDArray[np.float32]:
    """Canonical rotations (T, 22, 4) of a file at 50 Hz."""
    return load_motion(data / name).retarget("humanoid").resample(RATE).quats


def names(data: Path) -> dict[str, str]:
    """Files of the folder and who is in each; of a motion that stands there twice, one.

    Raises:
        FormatError: no manifest in ``cmu`` or in ``more``.
    """
    found: dict[str, str] = {}
    for folder, who in (("cmu", "subject"), ("more", "person")):
        for row in rows(data / folder / MANIFEST, "file", who):
            name = f"{folder}/{row['file']}"
            if not name.endswith(".asf"):
                found[name] = row[who] if folder == "more" else f"cmu{row[who]}"
    twice = {name for name in found if name.endswith(".amc") and f"{name[:-4]}.bvh" in found}
    return {name: person for name, person in found.items() if name not in twice}


def takes(data: Path, wanted: Callable[[str], bool]) -> list[Take]:
    """All takes of people who are wanted that can be read and are long enough."""
    found = []
    for name, person in names(data).items():
        if wanted(person):
            try:
                quats = load(data, name)
            except MotionError:
                continue  # manifests name a few that are there to be refused
            if len(quats) >= LONG * RATE:
                found.append(Take(name, person, quats))
    return found


def perform(quats: NDArray[np.float32], rng: np.random.Generator) -> Performance:
    """A take played at a tempo that drifts smoothly, begun anywhere, with stops, skips and repeated parts.

    Something of that kind happens every 6 to 18 s: a stop of .4 to 2 s, or a jump of 2 to 6 s ahead or back.
    """
    last = min(len(quats), round(LONGEST * RATE)) - 1
    room = np.log(TEMPO)
    base = rng.uniform(-0.7, 0.7) * room
    swing = rng.uniform(0.0, 1.0) * (room - abs(base))
    period, phase = rng.uniform(2.0, 8.0) * RATE, rng.uniform(0.0, 2.0 * np.pi)
    at = 0.0 if rng.random() < 0.6 else rng.uniform(0.0, 0.4) * last
    where: list[float] = []
    jumps: list[int] = []
    stops: list[list[int]] = []
    event, still, moving = rng.uniform(4.0, 12.0) * RATE, 0, 1.0
    while at < last:
        now = len(where)
        if now >= event:
            event = now + rng.uniform(6.0, 18.0) * RATE
            kind = int(rng.integers(3))
            target = at + (0.0, 1.0, -1.0)[kind] * rng.uniform(2.0, 6.0) * RATE
            if kind == 0:
                still = int(rng.uniform(0.4, 2.0) * RATE)
                stops.append([now, now + still])
            elif 0.0 <= target < last - 2.0 * RATE:
                at = target
                jumps.append(now)
        moving = max(0.0, moving - 0.1) if still > 0 else min(1.0, moving + 0.1)
        still -= 1
        where.append(at)
        at += moving * float(np.exp(base + swing * np.sin(2.0 * np.pi * now / period + phase)))
    played = resample_at(quats, np.zeros((len(quats), 3)), np.array(where))[0]
    for jump in jumps:
        stretch = slice(jump, jump + BLEND)
        new = played[stretch].copy()
        share = (np.arange(1, len(new) + 1) / (BLEND + 1.0))[:, None, None]
        old = played[jump - 1] * np.sign((played[jump - 1] * new).sum(axis=-1, keepdims=True))
        mixed = (1.0 - share) * old + share * new
        played[stretch] = mixed / np.linalg.norm(mixed, axis=-1, keepdims=True)
    return Performance(
        played.astype(np.float32),
        np.array(where) / RATE,
        tuple(jump / RATE for jump in jumps),
        tuple((start / RATE, stop / RATE) for start, stop in stops),
    )


SUITS: Final = ("as rehearsed", "noise", "another suit")


def as_suit_sees(quats: NDArray[np.float32], suit: str, rng: np.random.Generator) -> NDArray[np.float32]:
    """The performance as a suit sees it.

    Noise: every joint trembles by 1.5 degrees rms about each axis (a hand: some 2 cm) and drifts
    by 2. Another suit: all joints are held otherwise all the time (5 degrees rms), tremble by 1, drift by 3.
    """
    if suit == SUITS[0]:
        return quats
    held = quats if suit == SUITS[1] else posture(quats, float(np.radians(5.0)), rng)
    jitter, drift = (1.5, 2.0) if suit == SUITS[1] else (1.0, 3.0)
    seen, _ = sensor_noise(
        held,
        np.zeros((len(quats), 3)),
        np.ones(quats.shape[1], dtype=np.bool_),
        rng,
        jitter=float(np.radians(jitter)),
        drift=float(np.radians(drift)),
    )
    return seen.astype(np.float32)
