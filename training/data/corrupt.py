"""What a suit and a network do to a movement before the model sees it.

:mod:`training.data.augment` makes other movements, of which the teacher is asked again. Here the movement
stays what it is, and so does what the teacher says of it; only what arrives is worse. All functions are pure:
canonical rotations (T, 22, 4) w x y z at 50 Hz and the root (T, 3) in metres in, the same shapes out.
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
"""Joints that a poor suit has: hips, head, upper and lower limbs; hips, head, hands and feet; head and hands;
the right hand; the hips."""


def wander(frames: int, columns: int, seconds: float, rng: np.random.Generator) -> Array:
    """Random walks (frames, columns) that come back, of unit variance and the given time constant.

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
    drift: float,
    seconds: float = 5.0,
    place: float = 0.0,
) -> tuple[Array, Array]:
    """Every joint that is there turns a little by itself: fast jitter and slow drift.

    Args:
        quats: (T, 22, 4).
        root: (T, 3) metres.
        mask: (22,) joints that are there; the others stay at rest.
        rng: where the noise is drawn from.
        jitter: standard deviation about each axis, radians, independent from frame to frame.
        drift: standard deviation about each axis, radians, of a turn that wanders.
        seconds: its time constant.
        place: standard deviation of the root's jitter, metres.
    """
    frames = len(quats)
    vector = rng.normal(0.0, jitter, (frames, JOINTS, 3)) if jitter > 0.0 else np.zeros((frames, JOINTS, 3))
    if drift > 0.0:
        vector += drift * wander(frames, 3 * JOINTS, seconds, rng).reshape(frames, JOINTS, 3)
    vector[:, ~mask] = 0.0
    turned = multiply(np.asarray(quats, dtype=np.float64), from_vectors(vector))
    moved = np.asarray(root, dtype=np.float64)
    return turned, moved + rng.normal(0.0, place, moved.shape) if place > 0.0 else moved.copy()


def dropped_joints(
    quats: NDArray[np.floating], mask: Mask, joints: Iterable[int]
) -> tuple[Array, NDArray[np.bool_]]:
    """The movement as a suit without these joints delivers it, and its mask.

    As retargeting does it: identity there, and the joints below take the rotation over.
    """
    turned, left = np.array(quats, dtype=np.float64), mask.copy()
    for joint in sorted(set(joints)):  # parents come first: what they hand down must not come back
        turned = without(turned, joint)
        left[joint] = False
    return turned, left


def frozen_frames(
    frames: int, rng: np.random.Generator, *, per_minute: float, shortest: int, longest: int
) -> NDArray[np.int64]:
    """Which frame is seen at each (frames,) when the suit now and then repeats the last one for a while.

    Args:
        frames: how many there are.
        rng: where the moments are drawn from.
        per_minute: expected number of freezes.
        shortest: frames that a freeze lasts at least.
        longest: and at most.
    """
    if not 1 <= shortest <= longest:
        raise OptionError(f"expected 1 <= shortest <= longest, given {shortest} and {longest}")
    seen = np.arange(frames)
    for _ in range(int(rng.poisson(per_minute * frames / (60.0 * RATE)))):
        start, length = int(rng.integers(0, frames)), int(rng.integers(shortest, longest + 1))
        stop = min(start + 1 + length, frames)
        seen[start:stop] = seen[start]
    return seen


def packet_loss(frames: int, rng: np.random.Generator, *, share: float, burst: float) -> Mask:
    """Which frames (T,) arrive, when a share of them is lost in bursts: the Gilbert model.

    The first and the last arrive, and no gap is longer than the live resampler fills (25 frames).

    Args:
        frames: how many there are.
        rng: where the losses are drawn from.
        share: of the frames that are lost, 0 to below 1.
        burst: mean length of a gap, in frames, at least 1.
    """
    if not 0.0 <= share < 1.0 or not burst >= 1.0:
        raise OptionError(f"expected a share from 0 to below 1 and a burst >= 1, given {share} and {burst}")
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
    """The stream of a suit that sends ``rate`` frames a second, on the live resampler's grid.

    The last frame is sent whatever the rate, so that nothing is missing at the end.
    """
    turns, places = _core.resample(quats.astype(np.float32), root.astype(np.float32), RATE, rate)
    times = np.arange(len(turns)) / rate
    resampler = _core.Resampler(quats.shape[1], RATE, curved=True)
    made = [resampler.push(*frame) for frame in zip(times.tolist(), turns, places, strict=True)]
    end = (len(quats) - 1) / RATE
    if sum(len(turn) for turn, _ in made) < len(quats):
        made.append(resampler.push(end, quats[-1].astype(np.float32), root[-1].astype(np.float32)))
    return np.concatenate([turn for turn, _ in made]), np.concatenate([place for _, place in made])


def delivered(
    quats: NDArray[np.floating], root: NDArray[np.floating], arrived: Mask
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The stream with only the frames that arrived, its gaps filled by the live resampler."""
    resampler = _core.Resampler(quats.shape[1], RATE, curved=True)
    turns, places = [], []
    # A frame that ends a gap waits for the next one: the last two are there.
    there = arrived.copy()
    there[-2:] = True
    for frame in np.flatnonzero(there).tolist():
        made, at = resampler.push(
            frame / RATE, quats[frame].astype(np.float32), root[frame].astype(np.float32)
        )
        turns.append(made)
        places.append(at)
    return np.concatenate(turns), np.concatenate(places)


class Table(BaseModel):
    """A table of a recipe.

    Raises:
        OptionError: a key that does not exist, or a value of another kind or out of its range.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    def __init__(self, **given: Any) -> None:
        known = type(self).model_fields
        for name in given:
            if name not in known:
                raise OptionError(f"no key {name!r}; expected some of {', '.join(known)}")
        try:
            super().__init__(**given)
        except ValidationError as error:
            raise OptionError(first_problem(error)) from None


Number = TypeVar("Number", int, float)


def _rising(ends: tuple[Number, Number]) -> tuple[Number, Number]:
    if ends[0] > ends[1]:
        raise ValueError(f"expected a range from low to high, got {ends[0]} to {ends[1]}")
    return ends


Range = Annotated[tuple[Number, Number], Field(strict=False), AfterValidator(_rising)]
"""From low to high."""
# The digests of copies, which runs were begun with, tell 1 from 1.0.
AS_GIVEN: Final = WrapValidator(
    lambda given, check: given if type(given) is int and check(given) == given else check(given)
)
Share = Annotated[float, Field(ge=0, le=1), AS_GIVEN]
Positive = Annotated[float, Field(ge=0), AS_GIVEN]
Count = Annotated[int, Field(ge=1)]


class Corruption(Table):
    """How often and how badly; each trouble comes to its own share of the copies."""

    noise: Share = 0.3
    """Share with sensor noise."""
    jitter_degrees: Range[Positive] = (0.1, 1.5)
    drift_degrees: Range[Positive] = (0.5, 6.0)
    drop: Share = 0.2
    """Share of suits with few sensors, which only turn; the others are solved as they are live."""
    suits: Annotated[tuple[Suit, ...], Field(strict=False, min_length=1)] = tuple(SUITS)
    freeze: Share = 0.15
    """Share that freezes."""
    freezes_per_minute: Range[Positive] = (2.0, 12.0)
    freeze_frames: Range[Count] = (3, 20)
    loss: Share = 0.25
    """Share with lost packets."""
    slow: Share = 0.0
    """Share of suits that send fewer frames a second than the grid has."""
    slow_rate: Range[Annotated[float, Field(ge=10, le=RATE), AS_GIVEN]] = (20.0, 48.0)
    loss_share: Range[Annotated[float, Field(ge=0, lt=1), AS_GIVEN]] = (0.01, 0.15)
    loss_burst: Range[Annotated[float, Field(ge=1), AS_GIVEN]] = (1.0, 6.0)


@dataclass(frozen=True)
class CorruptedMotion:
    """What arrives of a movement."""

    quats: NDArray[np.float32]
    root: NDArray[np.float32]
    mask: Mask
    troubles: tuple[str, ...]
    """Which of drop, noise, freeze, slow, loss it went through."""


def corrupt(
    quats: NDArray[np.floating],
    root: NDArray[np.floating],
    mask: Mask,
    rng: np.random.Generator,
    how: Corruption,
) -> CorruptedMotion:
    """The movement through a suit and a network of random quality: sensors, freezes, rate, lost packets."""
    troubles = []
    turns: NDArray[np.floating] = np.asarray(quats, dtype=np.float64)
    places: NDArray[np.floating] = np.asarray(root, dtype=np.float64)
    left = np.asarray(mask, dtype=np.bool_).copy()
    # All shares are drawn first, so that one share's value does not move the others' draws.
    shares = (how.drop, how.noise, how.freeze, how.loss, how.slow)
    drop, noise, freeze, loss, slow = rng.random(len(shares)) < shares
    if drop:
        kept = SUITS[how.suits[int(rng.integers(len(how.suits)))]]
        drop = bool(left[list(kept)].any())
    if drop:
        turns, left = dropped_joints(turns, left, set(range(JOINTS)) - set(kept))
        troubles.append("drop")
    if noise:
        jitter, drift = rng.uniform(*how.jitter_degrees), rng.uniform(*how.drift_degrees)
        turns, places = sensor_noise(
            turns, places, left, rng, jitter=np.radians(jitter), drift=np.radians(drift), place=0.002 * jitter
        )
        troubles.append("noise")
    if freeze:
        shortest, longest = how.freeze_frames
        rate = float(rng.uniform(*how.freezes_per_minute))
        index = frozen_frames(len(turns), rng, per_minute=rate, shortest=shortest, longest=longest)
        turns, places = turns[index], places[index]
        troubles.append("freeze")
    if slow:
        turns, places = sent_at(turns, places, float(rng.uniform(*how.slow_rate)))
        troubles.append("slow")
    if loss:
        share, burst = float(rng.uniform(*how.loss_share)), float(rng.uniform(*how.loss_burst))
        turns, places = delivered(turns, places, packet_loss(len(turns), rng, share=share, burst=burst))
        troubles.append("loss")
    if drop:
        turns, sure = _core.complete_body(turns.astype(np.float32), left)
        left, places = sure[0] > 0.0, np.zeros_like(places)
    return CorruptedMotion(turns.astype(np.float32), places.astype(np.float32), left, tuple(troubles))
