"""Corruption of the input by a suit and a network: sensor noise, missing sensors, freezes, lost packets.

:mod:`training.data.augment` makes new movements with new targets. Here movement and targets stay the same;
only the data that reach the model get worse. All functions are pure: canonical rotations (T, 22, 4) w x y z
at 50 Hz and the root (T, 3) in metres in, the same shapes out.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, WrapValidator

from pyanticip import _core
from pyanticip.errors import OptionError
from pyanticip.motion.rotations import from_vectors, multiply
from pyanticip.options import first_problem
from pyanticip.vocabulary import CANONICAL_JOINTS, RATE
from training.data.augment import without

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

JOINTS: Final = len(CANONICAL_JOINTS)

Suit = Literal["ten", "six", "three", "hand", "phone"]
SUITS: Final[dict[Suit, tuple[int, ...]]] = {
    "ten": (0, 5, 7, 8, 11, 12, 14, 15, 18, 19),
    "six": (0, 5, 9, 13, 16, 20),
    "three": (5, 9, 13),
    "hand": (13,),
    "phone": (0,),
}
"""Joints measured by suits with few sensors: hips, head, upper and lower limbs; hips, head, hands and feet;
head and hands; the right hand; the hips."""


def wander(frames: int, columns: int, seconds: float, rng: np.random.Generator) -> Array:
    """Mean-reverting random walks (frames, columns) of unit variance, with a time constant in seconds.

    The Ornstein-Uhlenbeck process, sampled at 50 Hz from its stationary distribution.
    """
    keep = np.exp(-1.0 / (RATE * seconds))
    steps = rng.normal(size=(frames, columns))
    steps[1:] *= np.sqrt(1.0 - keep**2)
    for frame in range(1, frames):
        steps[frame] += keep * steps[frame - 1]
    return steps


def sensor_noise(
    quats: NDArray[np.floating],
    root: NDArray[np.floating],
    mask: Mask,
    rng: np.random.Generator,
    *,
    jitter: float,
    drift: float | Array,
    seconds: float = 5.0,
    place: float = 0.0,
) -> tuple[Array, Array]:
    """Add rotation noise to every measured joint, fast jitter and slow drift, and jitter to the root.

    Args:
        quats: (T, 22, 4).
        root: (T, 3) metres.
        mask: (22,) joints that are measured; the others stay at rest.
        rng: source of the noise.
        jitter: standard deviation about each axis, radians, independent from frame to frame.
        drift: standard deviation about each axis, radians, of a slowly wandering rotation; of all joints,
            or of each, (22, 1).
        seconds: time constant of the drift.
        place: standard deviation of the root's jitter, metres.
    """
    frames = len(quats)
    vector = rng.normal(0.0, jitter, (frames, JOINTS, 3)) if jitter > 0.0 else np.zeros((frames, JOINTS, 3))
    if np.any(drift):
        vector += drift * wander(frames, 3 * JOINTS, seconds, rng).reshape(frames, JOINTS, 3)
    vector[:, ~mask] = 0.0
    turned = multiply(np.asarray(quats, dtype=np.float64), from_vectors(vector))
    moved = np.asarray(root, dtype=np.float64)
    return turned, moved + rng.normal(0.0, place, moved.shape) if place > 0.0 else moved.copy()


def log_uniform(rng: np.random.Generator, ends: tuple[float, float]) -> float:
    """A number from a range, as often below its geometric mean as above."""
    return float(np.exp(rng.uniform(*np.log(ends))))


def dropped_joints(
    quats: NDArray[np.floating], mask: Mask, joints: Iterable[int]
) -> tuple[Array, NDArray[np.bool_]]:
    """Remove joints as a suit without them would; returns the clip and the mask of the remaining joints.

    As in retargeting, a removed joint is the identity and its children take its rotation over.
    """
    turned, remaining = np.array(quats, dtype=np.float64), mask.copy()
    for joint in sorted(set(joints)):  # parents first: a removed joint must not receive a rotation later
        turned = without(turned, joint)
        remaining[joint] = False
    return turned, remaining


def frozen_frames(
    frames: int, rng: np.random.Generator, *, per_minute: float, shortest: int, longest: int
) -> NDArray[np.int64]:
    """Index of the frame shown at each time (frames,) when the suit sometimes freezes on one frame.

    Args:
        frames: length of the clip.
        rng: source of the freezes.
        per_minute: expected number of freezes.
        shortest: minimum length of a freeze, frames.
        longest: maximum length of a freeze, frames.
    """
    if not 1 <= shortest <= longest:
        raise OptionError(f"expected 1 <= shortest <= longest, got {shortest} and {longest}")
    index = np.arange(frames)
    for _ in range(int(rng.poisson(per_minute * frames / (60.0 * RATE)))):
        start, length = int(rng.integers(0, frames)), int(rng.integers(shortest, longest + 1))
        stop = min(start + 1 + length, frames)
        index[start:stop] = index[start]
    return index


def packet_loss(frames: int, rng: np.random.Generator, *, share: float, burst: float) -> Mask:
    """Mask (T,) of the frames that arrive when packets are lost in bursts: the Gilbert model.

    The first and the last frame arrive, and no gap exceeds what the live resampler fills (25 frames).

    Args:
        frames: length of the clip.
        rng: source of the losses.
        share: share of lost frames, 0 to below 1.
        burst: mean length of a gap in frames, at least 1.
    """
    if not 0.0 <= share < 1.0 or not burst >= 1.0:
        raise OptionError(f"expected a share from 0 to below 1 and a burst >= 1, got {share} and {burst}")
    leave = 1.0 / burst
    enter = min(leave * share / (1.0 - share), 1.0)
    arrived = np.ones(frames, dtype=np.bool_)
    lost, gap = False, 0
    for frame, chance in enumerate(rng.random(frames).tolist()):
        lost = chance >= leave if lost else chance < enter
        if lost and gap < _core.MAX_GAP and 0 < frame < frames - 1:
            arrived[frame] = False
            gap += 1
        else:
            gap = 0
    return arrived


def sent_at(
    quats: NDArray[np.floating], root: NDArray[np.floating], rate: float
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The clip as sent by a suit at ``rate`` frames per second, resampled to 50 Hz by the live resampler.

    The last frame is always sent, so that the end of the clip is not lost.
    """
    turns, places = _core.resample(quats.astype(np.float32), root.astype(np.float32), RATE, rate)
    times = np.arange(len(turns)) / rate
    resampler = _core.Resampler(quats.shape[1], RATE, curved=True)
    chunks = [resampler.push(*frame) for frame in zip(times.tolist(), turns, places, strict=True)]
    end = (len(quats) - 1) / RATE
    if sum(len(turn) for turn, _ in chunks) < len(quats):
        chunks.append(resampler.push(end, quats[-1].astype(np.float32), root[-1].astype(np.float32)))
    return np.concatenate([turn for turn, _ in chunks]), np.concatenate([place for _, place in chunks])


def delivered(
    quats: NDArray[np.floating], root: NDArray[np.floating], arrived: Mask
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The clip from only the frames that arrived, its gaps filled by the live resampler."""
    resampler = _core.Resampler(quats.shape[1], RATE, curved=True)
    turns, places = [], []
    # The frame after a gap is held back until the next one comes: the last two always arrive.
    present = arrived.copy()
    present[-2:] = True
    for frame in np.flatnonzero(present).tolist():
        rotations, positions = resampler.push(
            frame / RATE, quats[frame].astype(np.float32), root[frame].astype(np.float32)
        )
        turns.append(rotations)
        places.append(positions)
    return np.concatenate(turns), np.concatenate(places)


class Table(BaseModel):
    """Base class of the tables of a recipe file.

    Raises:
        OptionError: an unknown key, or a value of the wrong type or out of range.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    def __init__(self, **values: Any) -> None:
        known = type(self).model_fields
        for name in values:
            if name not in known:
                raise OptionError(f"no key {name!r}; expected some of {', '.join(known)}")
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise OptionError(first_problem(error)) from None


Number = TypeVar("Number", int, float)


def _check_order(ends: tuple[Number, Number]) -> tuple[Number, Number]:
    if ends[0] > ends[1]:
        raise ValueError(f"expected a range from low to high, got {ends[0]} to {ends[1]}")
    return ends


Range = Annotated[tuple[Number, Number], Field(strict=False), AfterValidator(_check_order)]
"""A pair (low, high)."""
# Keeps an integer an integer: the digest of a recipe, which identifies existing copies, tells 1 from 1.0.
KEEP_INT: Final = WrapValidator(
    lambda value, check: value if type(value) is int and check(value) == value else check(value)
)
Share = Annotated[float, Field(ge=0, le=1), KEEP_INT]
Positive = Annotated[float, Field(ge=0), KEEP_INT]
Count = Annotated[int, Field(ge=1)]


class Corruption(Table):
    """Probability and severity of each corruption; they are drawn independently for each copy."""

    noise: Share = 0.3
    """Share of copies with sensor noise."""
    jitter_degrees: Range[Positive] = (0.1, 1.5)
    drift_degrees: Range[Positive] = (0.5, 6.0)
    tremble: Share = 0.0
    """Share of copies without noise whose joints tremble without drift, some more than others."""
    tremble_degrees: Range[Annotated[float, Field(gt=0), KEEP_INT]] = (0.02, 1.0)
    """Standard deviation of a median joint about each axis; log-uniform."""
    tremble_seconds: Range[Annotated[float, Field(gt=0), KEEP_INT]] = (0.005, 0.03)
    """Time constant: from white to what a suit's filter leaves below 5 Hz; log-uniform."""
    drop: Share = 0.2
    """Share of copies from a suit with few sensors: only rotations, the other joints estimated as live."""
    suits: Annotated[tuple[Suit, ...], Field(strict=False, min_length=1)] = tuple(SUITS)
    freeze: Share = 0.15
    """Share of copies with freezes."""
    freezes_per_minute: Range[Positive] = (2.0, 12.0)
    freeze_frames: Range[Count] = (3, 20)
    loss: Share = 0.25
    """Share of copies with lost packets."""
    slow: Share = 0.0
    """Share of copies from a suit that sends fewer than 50 frames per second."""
    slow_rate: Range[Annotated[float, Field(ge=10, le=RATE), KEEP_INT]] = (20.0, 48.0)
    loss_share: Range[Annotated[float, Field(ge=0, lt=1), KEEP_INT]] = (0.01, 0.15)
    loss_burst: Range[Annotated[float, Field(ge=1), KEEP_INT]] = (1.0, 6.0)


@dataclass(frozen=True)
class CorruptedMotion:
    """A corrupted clip."""

    quats: NDArray[np.float32]
    root: NDArray[np.float32]
    mask: Mask
    troubles: tuple[str, ...]
    """Corruptions that were applied: drop, noise, tremble, freeze, slow, loss."""


def corrupt(
    quats: NDArray[np.floating],
    root: NDArray[np.floating],
    mask: Mask,
    rng: np.random.Generator,
    config: Corruption,
) -> CorruptedMotion:
    """Corrupt a clip as a suit and a network of random quality would."""
    troubles = []
    turns: NDArray[np.floating] = np.asarray(quats, dtype=np.float64)
    places: NDArray[np.floating] = np.asarray(root, dtype=np.float64)
    remaining = np.asarray(mask, dtype=np.bool_).copy()
    # All decisions are drawn first, so that changing one probability leaves the other draws alone.
    shares = (config.drop, config.noise, config.freeze, config.loss, config.slow, config.tremble)
    drop, noise, freeze, loss, slow, tremble = rng.random(len(shares)) < shares
    if drop:
        sensors = SUITS[config.suits[int(rng.integers(len(config.suits)))]]
        drop = bool(remaining[list(sensors)].any())
    if drop:
        turns, remaining = dropped_joints(turns, remaining, set(range(JOINTS)) - set(sensors))
        troubles.append("drop")
    if noise:
        jitter, drift = rng.uniform(*config.jitter_degrees), rng.uniform(*config.drift_degrees)
        turns, places = sensor_noise(
            turns,
            places,
            remaining,
            rng,
            jitter=np.radians(jitter),
            drift=np.radians(drift),
            place=0.002 * jitter,
        )
        troubles.append("noise")
    elif tremble:
        degrees, seconds = log_uniform(rng, config.tremble_degrees), log_uniform(rng, config.tremble_seconds)
        turns, places = sensor_noise(
            turns,
            places,
            remaining,
            rng,
            jitter=0.0,
            drift=np.radians(degrees) * np.exp(0.5 * rng.normal(size=(JOINTS, 1))),
            seconds=seconds,
            place=0.002 * degrees,
        )
        troubles.append("tremble")
    if freeze:
        shortest, longest = config.freeze_frames
        rate = float(rng.uniform(*config.freezes_per_minute))
        index = frozen_frames(len(turns), rng, per_minute=rate, shortest=shortest, longest=longest)
        turns, places = turns[index], places[index]
        troubles.append("freeze")
    if slow:
        turns, places = sent_at(turns, places, float(rng.uniform(*config.slow_rate)))
        troubles.append("slow")
    if loss:
        share, burst = float(rng.uniform(*config.loss_share)), float(rng.uniform(*config.loss_burst))
        turns, places = delivered(turns, places, packet_loss(len(turns), rng, share=share, burst=burst))
        troubles.append("loss")
    if drop:
        turns, confidence = _core.complete_body(turns.astype(np.float32), remaining)
        remaining, places = confidence[0] > 0.0, np.zeros_like(places)
    return CorruptedMotion(turns.astype(np.float32), places.astype(np.float32), remaining, tuple(troubles))
