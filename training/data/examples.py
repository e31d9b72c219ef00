"""Training examples from motion: cutting at tracking jumps, augmentation, features and targets."""

from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from pyanticip.vocabulary import RATE
from training.data import augment
from training.teacher.kinematic_targets import compute_targets
from training.teacher.kinematics import MIRROR

Split = Literal["train", "validation", "test"]

SHORTEST: Final = 80
"""Minimum length of a training piece, frames at 50 Hz."""

JUMP_SPEED: Final = 8.0
"""Root speed, m/s, above which a frame is a tracking jump (CMU 03_02 has one of 13.7 m/s)."""

JUMP_TURN: Final = 45.0
"""Joint speed, rad/s, above which a frame is a jump: the T-pose before the first frame, a lost marker."""

# Groups of joints that many suits lack: the features then hold the identity and a mask of 0.
_OPTIONAL: Final = ((17, 21), (9, 13), (4,), (2,), (6, 10))


@dataclass(frozen=True)
class Piece:
    """Canonical motion without a tracking jump, at its recorded rate."""

    name: str
    subject: str
    quats: NDArray[np.float32]
    """(T, 22, 4) w,x,y,z, local."""
    root: NDArray[np.float32]
    """(T, 3) metres."""
    mask: NDArray[np.bool_]
    """(22,) joints that the source has."""
    rate: float


@dataclass(frozen=True)
class Example:
    """A piece at 50 Hz: the model's input and the teacher's targets."""

    name: str
    subject: str
    quats: NDArray[np.float32]
    """(T, 22, 4)."""
    features: NDArray[np.float32]
    """(T, 279) features."""
    params: NDArray[np.float32]
    """(T, 8)."""
    onsets: NDArray[np.int64]
    phrases: NDArray[np.int64]
    bad: NDArray[np.bool_] | None = None
    """(T,) frames that are known to be wrong; None if not labelled."""

    def __len__(self) -> int:
        return len(self.params)


def jumps(quats: NDArray[np.floating], root: NDArray[np.floating], rate: float) -> NDArray[np.bool_]:
    """Mask (T,) of frames whose change over the last 20 ms is faster than any body moves.

    Over 20 ms rather than one frame, so that marker noise at 120 Hz is not taken for a jump.
    """
    q, r = np.asarray(quats, dtype=np.float64), np.asarray(root, dtype=np.float64)
    jumped = np.zeros(len(q), dtype=np.bool_)
    span = max(round(rate / RATE), 1)
    dot = np.abs((q[span:] * q[:-span]).sum(axis=-1))
    turn = 2.0 * np.arccos(np.clip(dot, 0.0, 1.0)).max(axis=1) * rate / span
    speed = np.linalg.norm(r[span:] - r[:-span], axis=1) * rate / span
    jumped[span:] = (turn > JUMP_TURN) | (speed > JUMP_SPEED)
    return jumped


def steady_runs(
    quats: NDArray[np.floating], root: NDArray[np.floating], rate: float
) -> list[tuple[int, int]]:
    """Start and end (exclusive) of every run of frames without a tracking jump."""
    fine = np.concatenate([[False], ~jumps(quats, root, rate), [False]])
    edges = np.flatnonzero(fine[1:] != fine[:-1])
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def at_rate(piece: Piece) -> Piece:
    """Resample the piece to 50 Hz by interpolation between its frames; unchanged if it is at 50 Hz."""
    if piece.rate == RATE:
        return piece
    from pyanticip._core import resample

    quats, root = resample(piece.quats, piece.root, piece.rate, RATE)
    return replace(piece, quats=quats, root=root, rate=RATE)


def example_from_piece(piece: Piece) -> Example:
    """Make an example of the piece at 50 Hz, without augmentation: features and the teacher's targets."""
    from pyanticip._core import motion_features

    piece = at_rate(piece)
    quats = np.ascontiguousarray(piece.quats, dtype=np.float32)
    targets = compute_targets(quats)
    rows = motion_features(quats, np.ascontiguousarray(piece.root, dtype=np.float32), piece.mask)
    return Example(
        piece.name,
        piece.subject,
        quats,
        np.asarray(rows, dtype=np.float32),
        targets.params,
        targets.times("onset"),
        targets.times("phrase"),
    )


SLOW_SPEED: Final = (0.4, 0.8)
"""Range of the speed factor of slow copies, applied on top of the time warp."""


def vary(piece: Piece, rng: np.random.Generator, partner: Piece | None = None, slowly: float = 0.0) -> Piece:
    """Make a random new movement at 50 Hz from the piece: time-warped, turned, half of them mirrored.

    Most also change the posture and the size of the movement, some down to near stillness; a share of
    ``slowly`` is slowed down, some stop for a moment, some lean, and some take the upper body of ``partner``,
    so that the model sees more bodies and movements than there were performers. One in eight lacks joints
    that some suits lack; the teacher sees the same body without them.
    """
    hold, mask = bool(rng.random() < 0.3), piece.mask.copy()
    rate = piece.rate * (rng.uniform(*SLOW_SPEED) if slowly and rng.random() < slowly else 1.0)
    quats, root = augment.time_warp(piece.quats, piece.root, rate, rng, hold=hold)
    if partner is not None and rng.random() < 0.35:
        other, _ = augment.time_warp(partner.quats, partner.root, partner.rate, rng)
        if min(len(quats), len(other)) >= SHORTEST:
            quats = augment.upper_body_of(quats, other)
            root = root[: len(quats)]
            mask[augment.UPPER_BODY] &= partner.mask[augment.UPPER_BODY]
    if rng.random() < 0.5:
        smallest = np.log(0.1) if rng.random() < 0.3 else -0.35
        quats = augment.exaggerate(quats, np.exp(rng.uniform(smallest, 0.35)))
    if rng.random() < 0.75:
        quats = augment.posture(quats, rng.uniform(0.0, 0.3), rng)
    if rng.random() < 0.3:
        lean = rng.normal(0.0, 0.3 if rng.random() < 0.8 else 1.5, 3)
        quats = augment.tilt(quats, lean * np.array([1.0, 0.0, 1.0]))
    if rng.random() < 0.5:
        quats, root = augment.mirror(quats, root)
        mask = mask[list(MIRROR)]
    quats, root = augment.yaw(quats, root, rng.uniform(-np.pi, np.pi))
    if rng.random() < 0.125:
        for group in _OPTIONAL:
            if rng.random() < 0.4:
                mask[list(group)] = False
    for joint in np.flatnonzero(
        ~mask
    ).tolist():  # parents first: a removed joint must not receive a rotation later
        quats = augment.without(quats, joint)
    turns, places = quats.astype(np.float32), root.astype(np.float32)
    return Piece(piece.name, piece.subject, turns, places, mask, RATE)
