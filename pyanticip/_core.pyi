"""The Rust core; hand-written and checked against the binary by stubtest.

Beside the errors that are named, an argument of another type is a TypeError, a tuple or sequence of another
length a ValueError, and a whole number that does not fit (-1 for an index or seed, say) an OverflowError.
"""

from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from typing import Any, Final, Literal, Protocol, final

import numpy as np
import numpy.typing as npt

__version__: str

# --- the built-in voice ---

PARAMETERS: Final[tuple[str, ...]]
"""Names of the eight sound parameters, in order."""
EVENTS: Final[tuple[str, ...]]
"""Names of the two events, in order."""
LIMBS: Final[tuple[str, ...]]
"""Names of the four limbs, in order."""
VOICE_CEILING: float
"""Largest magnitude of a sample the voice gives: -2 dBFS, so that the peaks between samples stay below -1."""
PRESETS: Final[dict[str, str]]
"""The voice's presets: name and what it is."""
SCALES: Final[dict[str, tuple[float, ...]]]
"""Scales by name: semitones above the tonic."""

@final
class Samples:
    """The sounds of a folder, brought to one rate and described, for the presets that play them.

    WAV, FLAC, Ogg Vorbis, MP3 and AIFF of any length and rate, in folders inside as well, in the order of
    their names, until 128 MiB are full. Links to files are followed; what is hidden and links to folders
    are left alone. Raises an `OptionError` where there is no sound.
    """

    def __new__(cls, folder: str | PathLike[str], sample_rate: float = 48_000.0) -> Samples: ...
    @staticmethod
    def any(folder: str | PathLike[str]) -> bool:
        """Whether a folder, or one in it, has a file that is read, by the names."""

    @property
    def summary(self) -> str:
        """What was read and what was not, in a line."""

@final
class Voice:
    """The built-in voice: eight parameters (0..1, as ordered in `controls`) and two events in, stereo out.

    How the samples are cut into blocks does not change them. Values are clamped to 0..1; what is no number
    is ignored and counted. Raises `OptionError`, `ShapeError`.
    """

    def __new__(
        cls,
        sample_rate: float = 48_000.0,
        *,
        seed: int = 0,
        preset: str | None = None,
        tonic: float = 38.0,
        scale: list[float] | None = None,
        just: bool = False,
        a4: float = 440.0,
        chords: list[tuple[float, float, float]] = ...,
        samples: Samples | None = None,
    ) -> Voice:
        """`preset` plays first (None: the first of `PRESETS`). `tonic` is the MIDI number of the lowest note,
        `scale` the semitones above it (rising from 0, below 12), `just` tunes them to five-limit ratios, `a4`
        is in Hz, `chords` are steps of the scale above the note, which phrases walk through. `samples`
        are of the same sample rate; without them no preset that plays samples can be chosen.
        """

    def preset(self, name: str) -> None:
        """Another of `PRESETS` takes over within 0.4 s."""

    def set(self, index: int, value: float) -> None:
        """Sets parameter `index` (0..7); it takes effect within 64 samples."""

    def params(self, values: npt.NDArray[np.float32]) -> None:
        """Sets all eight parameters, shape (8,)."""

    def event(self, index: int, strength: float, seconds: float = 0.0) -> None:
        """Strikes event 0 (onset) or 1 (phrase), strength 0..1, `seconds` (0..60) ahead of now."""

    def gain(self, value: float) -> None:
        """Moves the master gain to `value`, 0..1, within 30 ms."""

    def tempo(self, bpm: float, phase: float) -> None:
        """A beat that the rhythm of `pulse` follows: 20 to 400 a minute, and how far it has come, 0..1.

        What is out of range is ignored and counted.
        """

    def limb(self, index: int, speed: float, height: float, stroke: float = 0.0) -> None:
        """What limb `index` (0..3, see `LIMBS`) does: speed, height, strength of a stroke now, 0..1 each."""

    def fade(self, value: float, seconds: float) -> None:
        """Moves the master gain to `value`, 0..1, in a straight line over `seconds` (0..60).

        At 0 the output is exactly zero, and what rang is gone.
        """

    def render(self, samples: int) -> npt.NDArray[np.float32]:
        """The next samples, shape (samples, 2), each within `VOICE_CEILING`; the GIL is released."""

    @property
    def latency(self) -> int:
        """Samples by which the output lags: the limiter's look-ahead."""

    @property
    def sample_rate(self) -> float:
        """Samples a second."""

    @property
    def sampled(self) -> bool:
        """Whether it has recorded sounds, and so every one of `PRESETS`."""

    @property
    def position(self) -> int:
        """Stereo samples rendered so far."""

    @property
    def ignored(self) -> int:
        """Values refused so far because they were no numbers."""

# --- the seven scalars ---

SCALARS: Final[tuple[str, ...]]
"""Names of the seven scalars, in the order they have everywhere."""

@final
class PoseStream:
    def __new__(
        cls,
        joints: int,
        options: dict[str, Any],
        weights: list[float] | None = None,
        limits: list[list[float]] | None = None,
    ) -> PoseStream: ...
    def push(self, quats: npt.ArrayLike) -> npt.NDArray[np.float64]: ...
    def push_many(self, quats: npt.ArrayLike) -> npt.NDArray[np.float64]: ...
    def reset(self) -> None: ...
    @property
    def valid(self) -> bool: ...
    @property
    def missing(self) -> int: ...
    @property
    def frames(self) -> int: ...

@final
class VectorStream:
    def __new__(cls, dim: int, options: dict[str, Any]) -> VectorStream: ...
    def push(self, x: npt.ArrayLike) -> npt.NDArray[np.float64]: ...
    def push_many(self, x: npt.ArrayLike) -> npt.NDArray[np.float64]: ...
    def reset(self) -> None: ...
    @property
    def valid(self) -> bool: ...
    @property
    def missing(self) -> int: ...
    @property
    def frames(self) -> int: ...

def pose_scalars(
    quats: npt.ArrayLike,
    options: dict[str, Any],
    paper: bool = False,
    weights: list[float] | None = None,
    limits: list[list[float]] | None = None,
) -> npt.NDArray[np.float64]: ...
def vector_scalars(
    x: npt.ArrayLike, options: dict[str, Any], paper: bool = False
) -> npt.NDArray[np.float64]: ...

# --- the canonical body, retargeting, resampling ---

CANONICAL_JOINTS: tuple[str, ...]
"""Names of the 22 canonical joints, in order."""
CANONICAL_PARENTS: tuple[int, ...]
"""Index of each canonical joint's parent, -1 for the hips."""
CANONICAL_OFFSETS: tuple[tuple[float, float, float], ...]
"""Rest offsets from the parent, metres: a T-pose facing +z, left is +x."""
CANONICAL_HIPS_HEIGHT: float
"""Height of the hips above the floor in the rest pose, metres."""
COMPARED_BONES: tuple[str, ...]
T_POSE_TOLERANCE: float
"""A pose whose `t_pose_deviation` is at most this (radians) is a T-pose."""
MAX_GAP: int
"""Grid frames that may be missing before a stream begins anew."""

@final
class Retargeter:
    """The map of one skeleton onto the canonical body, compiled once.

    `names` one a joint, `parents` (J,) with -1 for a root, `offsets` (J, 3) metres, `rest` (J, 4) the local
    rotations of a pose near a T-pose, by default the zero pose. Raises `SkeletonError` where names or
    hierarchy are not a body's, saying what was missing.
    """

    def __new__(
        cls,
        names: Sequence[str],
        parents: npt.ArrayLike,
        offsets: npt.ArrayLike,
        rest: npt.ArrayLike | None = None,
    ) -> Retargeter: ...
    def apply(
        self, quats: npt.ArrayLike, root: npt.ArrayLike
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Poses (T, J, 4) and root translation (T, 3) to canonical rotations (T, 22, 4), hips (T, 3)."""

    def observe(
        self, quats: npt.ArrayLike, root: npt.ArrayLike
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Where the source of each canonical joint is (T, 22, 3), and how it is turned (T, 22, 4).

        In the source's own world; NaN where there is none.
        """

    def agreement(self, quats: npt.ArrayLike) -> tuple[list[float], str | None]:
        """Bone directions of poses (T, J, 4) against those of their canonical body.

        The mean angle of each of `COMPARED_BONES` in degrees (NaN where the source lacks it), and what speaks
        against the body, if anything.
        """

    @property
    def world(self) -> list[float]:
        """The turn of the source's world, w x y z: its up to +y, the way its rest pose faces to +z."""

    @property
    def t_pose(self) -> npt.NDArray[np.float64]:
        """Rotation of the source of each canonical joint in the T-pose, the world turned, (22, 4) or NaN."""

    @property
    def ends(self) -> list[list[int] | None]:
        """Per canonical joint the first and the last source joint found for it, by index."""

    @property
    def mask(self) -> npt.NDArray[np.bool_]:
        """Which canonical joints have a source, (22,)."""

    @property
    def sources(self) -> list[list[str]]:
        """Per canonical joint the names of the source joints composed into it, top down."""

def guess_joints(
    names: Sequence[str], parents: npt.ArrayLike, offsets: npt.ArrayLike
) -> list[list[int] | None]:
    """Per canonical joint the first and the last joint, by index, that a skeleton's names say it is.

    Raises `SkeletonError` only where the hierarchy is none.
    """

def t_pose_deviation(
    names: Sequence[str],
    parents: npt.ArrayLike,
    offsets: npt.ArrayLike,
    pose: npt.ArrayLike | None = None,
) -> float:
    """Largest angle (radians) of an arm or leg bone of a pose (J, 4) from where a T-pose has it.

    `pose` is by default the zero pose. Raises as `Retargeter` does.
    """

def standard_skeleton(target: str) -> tuple[list[str], npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Names, parents (J,) and offsets (J, 3) in metres of "mocopi" (27 joints), "vmc" (55), "xsens" (23),
    "rokoko" (21), "axis" (59) or "humanoid" (22)."""

def expand(
    target: str, quats: npt.ArrayLike, root: npt.ArrayLike
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Canonical (T, 22, 4) and hips (T, 3) to local rotations (T, J, 4) and root (T, 3) of `target`.

    Retargeting the result gives the canonical poses back, but for "rokoko", whose bones rest turned as
    `standard_skeleton` does not say.
    """

@final
class Resampler:
    """Puts timed poses on a uniform grid that begins with the first one; slerp along the shortest arc.

    Gaps of up to `max_gap` grid frames are filled when the next pose comes, a longer one begins a new grid;
    `None` fills any gap. Batch `resample` is the same code. `curved` joins poses as the live front end does:
    by parabolas, and gaps at the speeds of their ends, for which the pose that ends one waits for the next.
    """

    def __new__(
        cls, joints: int, rate_out: float = ..., *, max_gap: int | None = ..., curved: bool = False
    ) -> Resampler: ...
    def push(
        self, t_seconds: float, quats: npt.ArrayLike, root: npt.ArrayLike
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Takes a pose (J, 4), (3,); returns the grid frames it completes, (k, J, 4) and (k, 3)."""

def resample(
    quats: npt.ArrayLike, root: npt.ArrayLike, rate_in: float, rate_out: float
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """A clip (T, J, 4), (T, 3) from `rate_in` to `rate_out` Hz; both begin with the same frame."""

# --- features ---

RATE: Final[float]
"""Frames a second of the grid, Hz."""
FEATURES_VERSION: int
"""Version of the layout of a feature row."""
FEATURE_COUNT_V1: int
"""How many features version 1 had: the first ones."""
FEATURE_NAMES: tuple[str, ...]
"""Names of the 279 features of a 50 Hz frame, in order."""

def motion_features(
    quats: npt.ArrayLike, root: npt.ArrayLike, mask: npt.ArrayLike, *, window: int = 256
) -> npt.NDArray[np.float32]:
    """Features (T, 279) of canonical frames at 50 Hz: rotations (T, 22, 4), hips (T, 3) m, mask (22,).

    `window` is that of the seven scalars. The live front end runs the same code frame by frame.
    """

def body_kinematics(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """What the canonical body does in space, (T, 177), from contiguous feature rows (T, 231 or 279).

    Positions, velocities and heights of the joints seen from the hips, and measures of the movement, each of
    unit scale: what the motion model sees beside a row. Raises ShapeError.
    """

@final
class StepResult:
    """What a model says after the newest frame; each array asked for is the asker's own."""

    def __new__(
        cls,
        params: npt.ArrayLike,
        hazards: npt.ArrayLike,
        scalars: npt.ArrayLike,
        gate: float,
        hidden: npt.ArrayLike | None = None,
        field: npt.ArrayLike | None = None,
        plan: Any = None,
    ) -> StepResult:
        """From numbers, kept in single precision; the properties say which. Raises ShapeError."""

    @property
    def params(self) -> npt.NDArray[np.float32]:
        """Sound parameters (8, 5), linear 0..1, at the horizons."""

    @property
    def hazards(self) -> npt.NDArray[np.float32]:
        """Probability (2, 25) of each event in each 20 ms bin ahead, given that it has not come before."""

    @property
    def scalars(self) -> npt.NDArray[np.float32]:
        """The seven of the refined head, (7,)."""

    @property
    def gate(self) -> float:
        """Commitment, 0..1."""

    @property
    def hidden(self) -> npt.NDArray[np.float32] | None:
        """The trunk's hidden state (D,), on which taught outputs are read; None where it is not told."""

    @property
    def field(self) -> npt.NDArray[np.float32] | None:
        """Trust 0..1 and curvature by the control field of each block of the fast pathway, (blocks, 2)."""

    @property
    def plan(self) -> Any:
        """What a model that plans looked at, as it was given; None where it does not plan."""

    @property
    def finite(self) -> bool:
        """Whether parameters, hazards and gate are numbers."""

VECTOR_WIDTH: Final[int]
"""How many numbers the kernels compute at a time on this processor: 16 with AVX-512, 8 with AVX2, 4 with
NEON, else 1."""

@final
class MotionStream:
    """The motion model on one performer's stream: its weights and its state.

    The kind of model that comes with the package, of any size: from the feature row to the controls all is
    computed here, in float32 on one thread without the GIL, held to the torch model by tests.
    """

    def __new__(
        cls,
        tensors: dict[str, npt.NDArray[np.float32]],
        *,
        width: int,
        heads: int,
        layers: tuple[int, int],
        past: tuple[int, int],
        hidden: int,
        stride: int,
        taps: int,
        units: int,
        visible: Sequence[bool],
        distance: float,
        positive: bool,
        gated: bool,
    ) -> MotionStream:
        """Read what is needed of a checkpoint's `tensors`.

        `layers` and `past` are those of the fast and the slow pathway, `hidden` the units of a block's
        feed-forward, `stride` the frames of a pool. `visible` tells for each column that the model reads
        whether the projection sees it; `distance` is that of two frames in the bias kernel, whose decay is a
        softplus of its parameter where `positive`; `units` are those of the control head, and `gated` tells
        whether the commitment scales the events' evidence. Raises ShapeError for a tensor that is missing or
        does not fit.
        """

    def fresh(self) -> MotionStream:
        """A new stream of the same model; the two share the weights."""

    def step(self, rows: npt.ArrayLike) -> StepResult:
        """Step feature rows (n, 231 or 279), oldest first, and return what holds after the newest.

        Raises ShapeError for another shape, or values that are not finite; the state is then unchanged.
        """

    def imagine(self, row: npt.ArrayLike) -> StepResult:
        """What `step` would return for this row (1, 231 or 279); the stream stays where it is."""

    def prewarm(self) -> None:
        """Go through a step and throw it away; the stream stays where it is."""

    def reset(self) -> None:
        """Begin a new stream."""

    def snapshot(self) -> npt.NDArray[np.float32]:
        """A copy of everything that the next step depends on.

        In order: frames, pools, the past embedded frames (taps - 1, width) oldest first, sum of the open pool
        (width,), last result of the slow pathway (width,), keys and values of all past steps that are seen,
        where they are followed the strokes, and where they are read the last poses.
        """

# --- the live front end ---

@final
class TempoTracker:
    """Follows the beat that a body keeps in feature rows at 50 Hz: steps, strokes.

    What it tells of a frame: beats a minute (50 to 250; the last known, 0 before any), phase 0..1 (0 at the
    beat, where the model's onsets lie), trust 0..1 (0: the body keeps no beat).
    """

    def __new__(cls) -> TempoTracker: ...
    def push_many(self, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """The beat with each of rows (T, 231 or 279) as the newest: (T, 3). Raises :class:`ShapeError`."""

@final
class Ensemble:
    """How ``performers`` (1 to 256) stand to each other: ``hear`` each one's frames as they come, then
    ``step`` once every 20 ms for all. Raises a ValueError for another number.

    What is compared is how fast each joint turns, so bodies of any size and suits of any axes compare. Of the
    past alone: everything is forgotten exponentially. Every pair is looked at: a step of twice as many costs
    four times as much.
    """

    def __new__(cls, performers: int) -> Ensemble: ...
    def hear(self, who: int, body: FrontOutput) -> None:
        """Take one performer's newest frame; a place of zeros is none. Raises a ValueError for an unknown
        performer."""

    def step(self) -> tuple[float, int, float, float, float, float]:
        """Where they all stand now: synchrony, leader, lag_ms, trust, distance, posture.

        ``synchrony`` 0..1 is how alike the speeds of the joints rose and fell in the last 2 s, mean of all
        pairs; ``leader`` (-1: nobody) is ``lag_ms``, 1000 at most, ahead of the others on average, with
        ``trust`` 0..1, by the last 4 s; ``distance`` is the mean of all pairs in metres (-1: where they are
        is not known), ``posture`` likewise the angle between their joints in radians, whichever way they
        face. Who was not heard for half a second is not there.
        """

@final
class FrontOutput:
    """The frames of the 50 Hz grid that one datagram completed; the newest of them in full."""

    def __new__(
        cls,
        features: npt.ArrayLike,
        poses: npt.ArrayLike,
        scalars: Sequence[float],
        *,
        seq: int,
        reset: bool = False,
        t_source_ns: int,
        t_local_ns: int,
        expected_ns: int,
        late_ns: int,
        root: Sequence[float] = ...,
        activity: float = 1.0,
        tempo: tuple[float, float, float] = ...,
        limbs: Sequence[float] = ...,
        filled: int = 0,
        valid: bool = True,
        stages_ns: tuple[int, int, int] = ...,
    ) -> FrontOutput:
        """What a front end of Python's tells: features (n, 279), poses (n, 22, 4), n >= 1; the others are the
        fields below. Raises ShapeError, as well for features or a root that are not finite and for rotations
        whose length is not 0.5 to 2."""

    @property
    def features(self) -> npt.NDArray[np.float32]:
        """Feature rows (n, 279) in time order, read-only; n > 1 after a gap or from a source slower than the
        grid."""

    @property
    def reset(self) -> bool:
        """True when the first row begins the stream anew: reset the model's state before stepping."""

    @property
    def seq(self) -> int:
        """Grid index of the newest row since the stream's first frame."""

    @property
    def t_source_ns(self) -> int:
        """Source time of the newest row, nanoseconds of the source's clock."""

    @property
    def t_local_ns(self) -> int:
        """The same on the local monotonic clock: when a frame of that time arrives at the earliest."""

    @property
    def expected_ns(self) -> int:
        """Local time at which the datagram that completes the next grid frame is expected."""

    @property
    def late_ns(self) -> int:
        """Local time from which on the next grid frame is late: mostly a quarter of the interval and the
        jitter so far after `expected_ns`."""

    @property
    def scalars(self) -> npt.NDArray[np.float64]:
        """The seven scalars of the newest row, (7,)."""

    @property
    def poses(self) -> npt.NDArray[np.float32]:
        """Canonical local rotations of each row, (n, 22, 4) w, x, y, z; read-only."""

    @property
    def root(self) -> npt.NDArray[np.float32]:
        """Position of the hips in the newest row, (3,) metres."""

    @property
    def activity(self) -> float:
        """0 while the body stands still in the newest row, 1 while it moves; 1 without a noise gate."""

    @property
    def tempo(self) -> tuple[float, float, float]:
        """The beat that the body keeps in the newest row, as :class:`TempoTracker` tells it."""

    @property
    def limbs(self) -> list[float]:
        """Of each of `LIMBS` in the newest row: speed against the hips (0.63 at 1.5 m/s), height (a hand: 0
        hanging, 0.5 at the shoulder, 1 stretched upwards; a foot: 1 at 0.9 m), strength of a stroke that
        ended in these rows (0: none); 12 numbers in 0..1.
        """

    @property
    def filled(self) -> int:
        """How many of the rows fill a gap."""

    @property
    def valid(self) -> bool:
        """False while more than a tenth of the scalars' window was not measured."""

    @property
    def stages_ns(self) -> tuple[int, int, int]:
        """Nanoseconds spent on decoding, on retargeting and resampling, on scalars and features."""

@final
class LiveFront:
    """Datagrams in, feature rows on the 50 Hz grid out; one performer, one protocol.

    `source` is one of `PROTOCOLS`; `rate` must be 50, the grid of the features; `window` is that of
    the seven scalars. `steady` puts a noise gate before the features, which holds the pose of a body that
    stands still; `noise` (22,) is the jitter of each joint, radians, where it is known from before (NaN: it
    is not). Nothing in a datagram can raise: what is wrong with it is counted. Of several senders one plays.
    What comes out depends on the player's own numbers and times; on arrivals only where it has none, or where
    they contradict them.
    """

    def __new__(
        cls,
        source: str,
        *,
        rate: float = ...,
        window: int = 256,
        steady: bool = False,
        noise: Sequence[float] | None = None,
    ) -> LiveFront: ...
    def feed(self, datagram: bytes, t_arrival_ns: int, sender: str = "") -> FrontOutput | None:
        """Takes one datagram of `sender` that arrived at `t_arrival_ns`; `None`: no new frame on the grid,
        or somebody else plays."""

    def prewarm(self) -> None:
        """Brings into the caches what the next frame is likely to need; nothing changes."""

    def imagine(self) -> FrontOutput | None:
        """The grid frame after the newest as a body that goes on moving would have it, for when its datagram
        is late; nothing of the stream changes. `None` before the first frame."""

    def counters(self) -> dict[str, int]:
        """Counts since the start.

        Keys: packets, frames, numbered, emitted, filled, lost, doubled, reordered, truncated, malformed,
        alien, strange (of another clock), refused (of a refused body), ignored (of other senders), resets.
        """

    def senders(self) -> list[tuple[str, bool, int, int]]:
        """Everybody heard of, the player first: name, whether it plays, good frames, last arrival in ns."""

    def listen_to(self, sender: str | None) -> bool:
        """Lets only this sender play (a name, or the host in it), `None`: whoever comes; True where it was
        heard of."""

    @property
    def timing(self) -> tuple[float | None, float, float]:
        """Of the player's stream: frames a second (`None` at first), spread of the delays in ms, drift in
        ppm."""

    @property
    def refusal(self) -> str | None:
        """Why the player's body cannot be played, or `None`."""

    @property
    def left_out(self) -> str | None:
        """Why something of the player's frames is not played (bones of VMC alone tell), or `None`."""

    def reset(self) -> None:
        """Forgets the stream, the skeleton and who plays; the counters go on."""

    @property
    def mask(self) -> npt.NDArray[np.bool_]:
        """Which canonical joints the features have, as far as known, (22,): measured, or solved from few
        sensors."""

    @property
    def confidence(self) -> npt.NDArray[np.float32]:
        """How sure each joint of the newest frame is, (22,): 1 where it is measured; where it is solved
        `exp(-e / 0.5)` of the error e radians that is expected of it; 0 where there is none."""

    @property
    def noise(self) -> npt.NDArray[np.float64] | None:
        """The jitter of each joint as learned so far, (22,) radians, rms about each axis; `None`: no gate."""

    @property
    def skeleton(self) -> list[str] | None:
        """The source's joint names; `None` before they are known."""

    @property
    def has_skeleton(self) -> bool:
        """Whether the player has told its skeleton, or has none to tell (VMC). Until then a standard body
        stands in for it."""

def solve_trackers(
    names: Sequence[str], quats: npt.ArrayLike, positions: npt.ArrayLike
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Local rotations (T, 22, 4) of the canonical body, which joints (22,) are measured and which placed, as
    `LiveFront` solves trackers on parts of these names: quats (T, K, 4) wxyz and positions (T, K, 3) m in the
    world, NaN where nothing is known. In the first frame the body stands straight. Placed joints only put
    head, hands and feet where they are (see `complete_body`); what nothing measures stays at rest. Raises
    `ShapeError` for tables that do not fit the names."""

def complete_body(
    quats: npt.ArrayLike, mask: npt.ArrayLike, placed: npt.ArrayLike | None = None
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Canonical frames (T, 22, 4) at 50 Hz with every joint, as `LiveFront` completes those of few sensors,
    and the confidence (T, 22) in each joint.

    `mask` (22,) says which joints are measured; of the others `quats` may say any rotation, not NaN or zeros.
    Measured joints keep their rotation in the world. Frames of more than 10 measured joints, or of none, come
    back as they are. `placed` (22,) are joints that only say where head, hands and feet are: they are solved,
    however many are measured; limbs point there and bend as far as the distance tells. Raises ShapeError,
    OptionError.
    """

# --- following what was rehearsed ---

@final
class Follower:
    """Where the performer is in rehearsed takes, from one frame of the 50 Hz grid to the next.

    `takes` are canonical rotations, each (T, 22, 4) w x y z at 50 Hz with T >= 1, of which every second frame
    is read; they are taken one after the other and not kept. Looks at the past alone. Raises `ShapeError`.
    """

    def __new__(cls, takes: Iterable[npt.ArrayLike]) -> Follower: ...
    def poses(self, take: int) -> npt.NDArray[np.int16]:
        """Every second pose (N, 22, 4) of a take, from the first on, in 1/32767. Raises `OptionError`."""

    def push_many(self, quats: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Takes T frames (T, 22, 4): rows (T, 4) of take, seconds in it, tempo against the rehearsal (0:
        still), trust 0 to 1; -1, NaN, NaN, 0 where it is in no take, as far as is known."""

    def arm(self, cues: Cues, same: Sequence[int | None] = ...) -> None:
        """Tells these cues in the frames that an `Engine` hears from now on.

        `same` says of each which of those told before it is (`None`: none): one that was said stays said.
        """

@final
class Cues:
    """Moments of the rehearsal that are said a chosen time before the performer comes to them.

    `cues` are take, seconds in it, and seconds ahead (0 to 2). Each is said once in every pass, at the first
    frame from which it is no further away; it can be said again after the performer went back before it.
    `also` are indices of cues, other takes that show the same, and seconds in these. Raises `OptionError`.
    """

    def __new__(
        cls, cues: Sequence[tuple[int, float, float]], also: Sequence[tuple[int, int, float]] = ...
    ) -> Cues: ...
    def push(self, place: tuple[int, float, float, float] | None, /) -> list[tuple[int, float]]:
        """Takes where a frame is, as a `Follower` says (None for its -1): indices of cues, and seconds until
        each is due.

        A show's `Engine` (`Follower.arm`) also takes the belief in the other takes into account.
        """

    def passed(self, cue: int) -> None:
        """The performer is at this cue now: it is said in the next pass. Raises `OptionError`."""

GESTURE_FRAMES: tuple[int, int]
"""Frames of the shortest and of the longest take of a gesture."""

@final
class Spotter:
    """Which taught gestures are under way, how far each is and when it ends: online subsequence alignment.

    `takes` are the index of a gesture and canonical rotations (T, 22, 4) at 50 Hz from the gesture's first
    moment to its last, T within `GESTURE_FRAMES`; 200 takes and 20,000 frames at most. `thresholds` say for
    each gesture what it may cost, 0.0001 to 10 m; it is recognised when the share `at` (0.1 to 0.8) of it is
    done. Looks at the past alone. Raises `ShapeError`, `OptionError`.
    """

    def __new__(
        cls, takes: Sequence[tuple[int, npt.ArrayLike]], thresholds: Sequence[float], *, at: float = 0.3
    ) -> Spotter: ...
    def push(self, quats: npt.ArrayLike) -> list[tuple[float, float, float] | None]:
        """Takes a frame (22, 4): per gesture progress 0 to 1, seconds until it ends, how likely 0 to 1.

        `None` where it is not under way; always so for a frame or more between two of a kind.
        """

    def push_many(self, quats: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """The same for T frames (T, 22, 4): (T, gestures, 4), where `None` is NaN, NaN, 0.

        The fourth is the mean cost (m) of the best path that came far enough to be recognised; inf: none.
        """

    def reset(self) -> None:
        """The next frame begins a new run."""

# --- datagrams and recordings ---

MOCOPI_BONES: list[str]
"""Names of mocopi's 27 bones, by id."""
MOCOPI_PARENTS: list[int]
"""Parents of mocopi's 27 bones, -1 for the root."""
VMC_BONES: list[str]
"""Names of the 55 humanoid bones, by id: the order of Unity's HumanBodyBones."""
VMC_PARENTS: list[int]
"""Parents of the 55 humanoid bones, -1 for the hips."""

PROTOCOLS: list[str]
"""The protocols whose datagrams become poses, the most usual first."""
VRCHAT_TRACKERS: list[str]
"""The canonical joint of each of VRChat's trackers, 1 to 8 and head, as SlimeVR numbers them."""

def recognise(datagram: bytes, /) -> str | None:
    """The kind of sender a datagram is from, by its looks.

    One of `PROTOCOLS`, "wek", "phone", "osc" (of somebody else's), or None.
    """

@final
class OscBundle:
    """An OSC bundle that is laid out once, and whose numbers are written for every frame."""

    def __new__(
        cls, layout: bytes, count_at: int | None, places: Sequence[tuple[int, int, int]]
    ) -> OscBundle:
        """The bytes of a bundle; where in them its int32 stands, if it has one, and of each float32 where it
        stands, which list of numbers it is in, and where in that. Raises OptionError.
        """

    def pack(
        self,
        count: int,
        lists: Sequence[Sequence[float]],
        tail: Sequence[tuple[bytes, Sequence[float]]],
    ) -> bytes:
        """The bundle with these numbers, then bytes and the floats behind each; a number that its list does
        not have stays as it was."""

@final
class Decoder:
    """One sender's datagrams of any of `PROTOCOLS`."""

    def __new__(cls, protocol: str, /) -> Decoder: ...
    def feed(self, datagram: bytes, /) -> list[dict[str, Any]]:
        """Takes one datagram in, returns what it completes, oldest first.

        A frame: `kind` "frame", `seq`, `time` (seconds or None), `root` ((3,) m or None), `ids` (n,), `quats`
        (n, 4) wxyz local, `positions` (n, 3) m, `fresh` (n,) bool, `unusable` (int). A skeleton: `kind`
        "skeleton", `names`, `parents`, `offsets` (J, 3) m, `rest` (J, 4), `rate` (Hz or None). Of parts that
        are no skeleton `kind` "trackers", `seq`, `time`, `names` (K,), `quats` (K, 4) wxyz and `positions`
        (K, 3) m in the world, NaN where not known. Bones that a frame of VMC lacks keep their last pose,
        `fresh` False; those never seen are not listed. Raises `WireError`.
        """

def encode_mocopi_skeleton(parents: Sequence[int], offsets: npt.ArrayLike) -> bytes:
    """A mocopi skeleton datagram: parents (J,), offsets (J, 3) m."""

def encode_mocopi_frame(
    seq: int,
    quats: npt.ArrayLike,
    positions: npt.ArrayLike,
    *,
    stream_time: float = 0.0,
    unix_time: float | None = None,
) -> bytes:
    """A mocopi frame datagram: quats (J, 4) wxyz local, positions (J, 3) m local.

    `stream_time` in seconds since the stream began; without `unix_time` as older apps send it.
    """

def encode_frame(
    protocol: str,
    seq: int,
    time: float,
    quats: npt.ArrayLike,
    positions: npt.ArrayLike,
    *,
    ids: Sequence[int] | None = None,
    rate: float = 60.0,
) -> bytes:
    """A frame as "vmc" (a bundle: OK, T, root at the origin, 55 bones), "xsens" (MXTP02, 23 segments),
    "rokoko" (a message of Studio, JSON v3, 21 joints) or "axis" (a binary BVH broadcast with displacement, 59
    joints).

    `quats` (J, 4) wxyz and `positions` (J, 3) m, both local; `time` in seconds, which axis has not, as vmc
    and rokoko have no `seq`. `ids` index the protocol's bones, by default 0..J-1; `rate` is rokoko's. Raises
    ShapeError, OptionError.
    """

def encode_natnet_skeleton(names: Sequence[str], parents: Sequence[int], offsets: npt.ArrayLike) -> bytes:
    """A model definition of NatNet 4.1: offsets (J, 3) m local, parents before their children, -1 none."""

def encode_natnet_frame(
    seq: int, time: float, quats: npt.ArrayLike, positions: npt.ArrayLike, parents: Sequence[int]
) -> bytes:
    """A frame of NatNet 4.1: quats (J, 4) wxyz, positions (J, 3) m, both local; time in seconds."""

def encode_vrchat_frame(quats: npt.ArrayLike, positions: npt.ArrayLike) -> bytes:
    """A bundle of the first K of `VRCHAT_TRACKERS`: quats (K, 4) wxyz, positions (K, 3) m, both in the world
    of a body that looks along -z."""

def encode_native_skeleton(
    names: Sequence[str],
    parents: Sequence[int],
    offsets: npt.ArrayLike,
    rest: npt.ArrayLike | None = None,
    *,
    rate: float | None = None,
) -> bytes:
    """A msgpack skeleton datagram: names (J,), parents (J,), offsets (J, 3) m, rest (J, 4), rate in Hz."""

def encode_native_frame(
    seq: int, time: float, quats: npt.ArrayLike, root: npt.ArrayLike | None = None
) -> bytes:
    """A msgpack frame datagram: time in seconds, quats (J, 4) wxyz local, root (3,) m."""

def recording_header() -> bytes:
    """The 12 bytes a recording begins with."""

def recording_check(data: bytes, /) -> tuple[int, int]:
    """The (major, minor) version of the recording that begins with `data`; raises `FormatError`."""

def recording_frame(payload: bytes, /) -> bytes:
    """One record with this payload: length, checksum, payload; raises `FormatError` above 16 MiB."""

def recording_next(data: bytes, at: int, /) -> tuple[str, int, int]:
    """What stands at offset `at`.

    ("record", start, end of the payload), ("more", at, end as far as known) where `data` ends inside the
    record, ("corrupt", at, end) where the checksum does not hold, ("lost", at, length): no such length
    """

def recording_find(data: bytes, at: int, ended: bool, /) -> tuple[int, bool]:
    """The first offset from `at` on where a whole record begins that is a msgpack array and whose checksum
    holds, and True.

    Or where to look again with more bytes, and False; `ended`: there are none.
    """

# --- the histogram scan of PRISM positions ---

def prism_scan(
    moves: npt.NDArray[Any],
    start: npt.NDArray[Any],
    gamma: npt.NDArray[Any] | None,
    jumps: npt.NDArray[Any] | None,
    out: npt.NDArray[Any],
) -> None:
    """Histograms after every step, into `out` (B, C, L, P); the GIL is released.

    `moves` (B, C, L, 5) weights of inc, dec, keep, to place 0 and to place 1; `start` (B, C, P); `gamma` (C,)
    exponents; `jumps` (B, J, L, P) of the first J cursors. All float32 or all float64, C-contiguous, else
    `ShapeError`.
    """

def prism_places(
    moves: npt.NDArray[Any],
    start: npt.NDArray[Any],
    gamma: npt.NDArray[Any] | None,
    jumps: npt.NDArray[Any] | None,
    table: npt.NDArray[Any],
    out: npt.NDArray[Any],
    last: npt.NDArray[Any],
    kept: npt.NDArray[Any] | None,
) -> None:
    """Histograms after every step times `table` (P, D), into `out` (B, C, L, D), and those after the last
    step into `last` (B, C, P); the GIL is released.

    `kept` (B, C, ceil(L / 16), P) takes what the way back needs.
    """

def prism_places_backward(
    moves: npt.NDArray[Any],
    start: npt.NDArray[Any],
    gamma: npt.NDArray[Any] | None,
    jumps: npt.NDArray[Any] | None,
    table: npt.NDArray[Any],
    kept: npt.NDArray[Any],
    grad: npt.NDArray[Any],
    grad_last: npt.NDArray[Any] | None,
    d_moves: npt.NDArray[Any],
    d_start: npt.NDArray[Any],
    d_gamma: npt.NDArray[Any] | None,
    d_jumps: npt.NDArray[Any] | None,
) -> None:
    """Gradients of a scan's inputs, into the last four, from what was kept and the gradients of what came
    out."""

# --- the recurrence of PRISM positions' gated recurrent unit ---

def prism_gru(
    given: npt.NDArray[Any],
    start: npt.NDArray[Any],
    weights: npt.NDArray[Any],
    bias: npt.NDArray[Any],
    out: npt.NDArray[Any],
    gates: npt.NDArray[Any] | None,
) -> None:
    """Hidden states after every step, into `out` (B, L, H); the GIL is released.

    `given` (B, L, 3 H) what the input gives to reset, update and new; `start` (B, H); recurrent `weights`
    (3 H, H) and `bias` (3 H,). `gates` (B, L, 4 H) takes what the way back needs. All float32 or all float64,
    C-contiguous, else `ShapeError`.
    """

def prism_gru_backward(
    start: npt.NDArray[Any],
    weights: npt.NDArray[Any],
    bias: npt.NDArray[Any],
    out: npt.NDArray[Any],
    gates: npt.NDArray[Any],
    grad: npt.NDArray[Any],
    d_given: npt.NDArray[Any],
    d_kept: npt.NDArray[Any],
    d_start: npt.NDArray[Any],
) -> None:
    """Gradients, into the last three, from what came out and its gradient: of what the input gives, of what
    the hidden states give to new before the reset (B, L, H), and of the start."""

# --- the control field ---

def field_forward(
    seen: npt.NDArray[Any],
    fibres: int,
    bias: npt.NDArray[Any],
    last: npt.NDArray[Any],
    end: npt.NDArray[Any],
    raw: npt.NDArray[Any],
    decay: float,
    bend: float,
    out: npt.NDArray[Any],
) -> None:
    """The outputs of a control field, into `out` (6, B, L): log gate, scale, held, risk, kappa, and the risk
    before its softplus; the GIL is released.

    `seen` (W + N, B L) fibres and hidden layer of the steps; `bias` (N,), `last` (1, N), `end` (1,), `raw` ()
    its parameters; `decay` of the average, `bend` of the scale. All float32 or all float64, C-contiguous,
    else ShapeError.
    """

def field_backward(
    seen: npt.NDArray[Any],
    fibres: int,
    bias: npt.NDArray[Any],
    last: npt.NDArray[Any],
    end: npt.NDArray[Any],
    raw: npt.NDArray[Any],
    decay: float,
    bend: float,
    out: npt.NDArray[Any],
    grads: Sequence[npt.NDArray[Any] | None],
    into: Sequence[npt.NDArray[Any]],
) -> None:
    """Gradients by `seen`, `bias`, `last`, `end` and `raw`, written into the five arrays of `into`.

    `grads`: those of the first five of `out`, None where there is none; else as :func:`field_forward`.
    """

def field_gates(
    heads: int,
    width: int,
    scale: float,
    tensors: Sequence[tuple[npt.NDArray[Any], tuple[int, int, int]]],
    gates: npt.NDArray[Any],
    parallel: bool,
    out: npt.NDArray[Any],
) -> None:
    """The gradient of causal attention by what is added to the scores of its keys, `gates` (B, L), into `out`
    (B, L); on this thread unless `parallel`; the GIL is released.

    `tensors`: queries, keys, values, what came out, its gradient and that of the values, each (B, L, H, d),
    and the logarithms (B, L, H) of the sums of exponentials of scores; each as its numbers from the first to
    the last as they lie, and how many it is from one row, step and head to the next. `scale` of the products
    of queries and keys. All float32 or all float64, C-contiguous, else ShapeError.
    """

# --- trajectory positions ---

def trajectory_encode(
    embedded: npt.NDArray[Any],
    strength: float,
    magnitude: float,
    rms: bool,
    table: npt.NDArray[Any],
    speeds: npt.NDArray[Any],
    out: npt.NDArray[Any],
) -> int:
    """Encodings at the positions that embeddings (B, L, D) float32 give, into `out` of the same shape; how
    many rows fell back to their steps' numbers.

    `table` (rows, D or D + 1) pairs of sine and cosine of whole positions, `speeds` radians per position of
    each pair; all float32, C-contiguous. Positions are within the table's rows, by half of one at most.
    Raises ShapeError; `out` is of no use then. The GIL is released.
    """

def encode_positions(
    positions: npt.NDArray[Any],
    table: npt.NDArray[Any],
    speeds: npt.NDArray[Any],
    out: npt.NDArray[Any],
) -> None:
    """Encodings of positions (N,) float64, into `out` (N, D); the rest as `trajectory_encode` has it."""

# --- planning ---

def plan_targets(
    codes: npt.NDArray[np.int64],
    place: npt.NDArray[np.int64],
    gone: npt.NDArray[np.bool_],
    whole: npt.NDArray[np.bool_],
) -> npt.NDArray[np.float64]:
    """What comes and what has gone at the first L steps of `codes` (B, N), negative for none: the values that
    targets of codes in the K steps ahead have, 0 before all others.

    The target of a code is the sum of log(K + 2 - d) over the distances d at which it comes, over that of
    all. `place` (B, L, K) says which is that of the code d + 1 steps ahead, 0 where there is none or it came
    nearer by; `gone` (B, L, K) whether the code K - 1 - d steps back is none of those after it, to the last
    of the steps ahead; `whole` (B, L) whether all K exist. All C-contiguous, else ShapeError. The GIL is
    released.
    """

def plan_draw(
    comes: npt.NDArray[np.int64],
    place: npt.NDArray[np.int64],
    shapes: npt.NDArray[np.float64],
    log_frequency: npt.NDArray[np.float64],
    quantiles: npt.NDArray[np.float64],
    edge: float,
    seed: int,
    codes: npt.NDArray[np.int64],
    found: npt.NDArray[np.float64],
) -> None:
    """The codes of the largest contrasts of each step, largest first, into `codes`, `found` (steps, slots).

    `comes` (steps, K) codes that come, of repeated ones the first counts; the score of one is drawn from the
    Beta distribution of these `shapes` (U, 2) that `place` (steps, K) says, 0 for codes that do not count.
    All others have scores drawn independently: `quantiles` are the logarithms of theirs, ascending, evenly
    spaced in the logit of the probability from -`edge` to `edge`. A contrast is the logarithm of a score less
    `log_frequency` (V,). The `seed` (0 to 2^64 - 1) decides, whatever the number of threads. All
    C-contiguous, else ShapeError. The GIL is released.
    """

def plan_products(
    asked: npt.NDArray[Any], table: npt.NDArray[Any], codes: npt.NDArray[np.int64], out: npt.NDArray[Any]
) -> None:
    """Products of `asked` (N, J, D) with the rows of the `table` (V, D) that `codes` (N, K) name, into `out`
    (N, J, K). Numbers all float32 or all float64, C-contiguous, else ShapeError. The GIL is released.
    """

def plan_spread(
    shares: npt.NDArray[Any], grad: npt.NDArray[Any], codes: npt.NDArray[np.int64], table: npt.NDArray[Any]
) -> None:
    """Adds `grad` (N, J, D) times `shares` (N, J, K) to the rows of the `table` (V, D) that `codes` (N, K)
    name; the rest as `plan_products` has it.
    """

# --- what a performer did before ---

TEACHER_REACH: int
"""Frames after a frame that the offline teacher looks at."""
KEY_SIZE: int
"""Numbers by which a moment is recognised."""
KEYS_VERSION: int
"""Version of their layout."""

def teacher_parameters(quats: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """The offline teacher's parameters (T, 8) of a whole take (T, 22, 4) at 50 Hz. Raises ShapeError."""

@final
class CausalTwins:
    """The teacher's parameters of a stream from the past alone, at several group delays in seconds.

    A delay of 0 smooths nothing; density and pulse are smoothed with three times a delay. `motion_delay_s` is
    that of the smoother before the differences. Raises OptionError: a delay out of 0 to 10 s.
    """

    def __new__(cls, delays_s: Sequence[float], *, motion_delay_s: float = ...) -> CausalTwins: ...
    def push(self, quats: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """The parameters (T, D, 8) of the next frames (T, 22, 4). Raises ShapeError."""

    def reset(self) -> None:
        """The next frame is a first frame again."""

@final
class Memory:
    """One performer: what was done before, and the stream that reads it and adds to it.

    A moment is remembered for every 40 ms, with what the offline teacher says followed it, when it is known
    (1.7 s later). When there is no room left, the oldest of what was learned from the stream goes first;
    what was rehearsed stays. Rotations are canonical, local, w,x,y,z, at 50 Hz; parameters are 0..1. The same
    input gives the same bits.
    """

    def __new__(cls, capacity: int = 90_000) -> Memory:
        """Room for `capacity` moments: an hour, some 40 MB, taken as they are used. Raises OptionError."""

    def push(
        self,
        quats: npt.ArrayLike,
        params: npt.ArrayLike | None = None,
        place: tuple[int, float, float, float] | None = None,
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """The next frame (22, 4), and what the model says in it (8, 5), if it does.

        `place` is what a `Follower` of the rehearsed takes says of the frame: number of the take, seconds in
        it, tempo, trust (None for its -1); what was rehearsed there is then believed as well, as far as the
        place is trusted. Returns the mixed parameters (8, 5) at the model's horizons, and trust (8, 3) at
        100, 200 and 400 ms: what share of the mixture is forecast, by the model or from memory, rather than
        held. Raises ShapeError, as well for rotations whose length is not 0.5 to 2; nothing has changed then.
        """

    def push_many(
        self,
        quats: npt.ArrayLike,
        params: npt.ArrayLike | None = None,
        places: npt.ArrayLike | None = None,
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """As T single pushes: (T, 22, 4), (T, 8, 5) and (T, 4) give (T, 8, 5) and (T, 8, 3).

        Rows of parameters and places that are not finite were not said.
        """

    def imagine(self, step: StepResult) -> StepResult:
        """The step with what would be mixed if the model said it of the newest frame; nothing changes. Raises
        ShapeError."""

    def reset(self) -> None:
        """The take ends here. What is known stays, and so does who was right of late."""

    def rehearse(self, name: str, quats: npt.ArrayLike) -> None:
        """Remembers a whole take (T, 22, 4) for good.

        Raises ShapeError; OptionError: no room, or moments were learned from the stream already.
        """

    def clear(self, *, rehearsed: bool = False) -> None:
        """Forgets what was learned from the stream, and what was rehearsed as well where it is said."""

    learning: bool
    """Whether what is played from here on is remembered. What is known is read either way."""

    @property
    def takes(self) -> list[str]:
        """Names of the takes that were rehearsed."""

    @property
    def capacity(self) -> int:
        """How many moments there is room for."""

    @property
    def rehearsed(self) -> int:
        """How many moments were rehearsed."""

    @property
    def forgotten(self) -> int:
        """How many were forgotten to make room."""

    def __len__(self) -> int:
        """How many moments there are."""

    def moments(
        self, first: int = 0, count: int | None = None
    ) -> tuple[list[str], npt.NDArray[np.int16], npt.NDArray[np.uint16], npt.NDArray[np.uint32]]:
        """What is remembered, oldest first, `count` moments from the `first` on: names of all takes, keys
        (N, 182), what followed (N, 24), and take and frame (N, 2). What was learned from the stream gets
        takes of its own."""

    def restore(
        self,
        takes: Sequence[str],
        keys: npt.NDArray[np.int16],
        followed: npt.NDArray[np.uint16],
        origins: npt.NDArray[np.uint32],
    ) -> None:
        """Puts what `moments` gave in place of all that is remembered; it counts as rehearsed.

        Raises ShapeError and OptionError; the memory may be empty then.
        """

# --- controls: from what a model says to what goes out ---

HORIZONS_MS: Final[tuple[int, ...]]
"""How far ahead a model says the parameters, milliseconds."""
BIN_MS: Final[float]
"""Width of a bin of the events' hazards, milliseconds."""
NEUTRAL: Final[tuple[float, ...]]
"""Where the eight parameters go when there is nobody to follow: silent, centred, dry."""

_Events = list[tuple[str, float, float]]

class _Smoothing(Protocol):
    @property
    def kind(self) -> str: ...
    @property
    def half_life(self) -> float: ...
    @property
    def min_cutoff(self) -> float: ...
    @property
    def beta(self) -> float: ...

class _Shape(Protocol):
    @property
    def span(self) -> tuple[float, float]: ...
    @property
    def invert(self) -> bool: ...
    @property
    def threshold(self) -> float | None: ...
    @property
    def hysteresis(self) -> float: ...
    @property
    def toggle(self) -> bool: ...
    @property
    def steps(self) -> int | None: ...

def scalar_mapping(scalars: npt.ArrayLike) -> list[float]:
    """Control vector (8,) from the seven scalars alone: what plays when there is no model or it is late.

    A still performer is silent, novelty away from the centre of the recent range is loud, an uncertain course
    is dense, an unsteady one rough. Raises ShapeError.
    """

STRETCHED: tuple[int, ...]
"""The places among the eight of what is stretched to a performer's range: loudness and brightness."""

RESTLESS: float
"""Nobody stands above this."""

def stretched(value: float, ends: tuple[float, float, float]) -> float:
    """`value` in 0..1 in a performer's range: 0 up to still, .1 at low, .75 at high, 1 at 1.

    `ends` are still, low (5th) and high (95th percentile while moving). Raises OptionError for a range in
    disorder.
    """

@final
class PerformerRange:
    """Stretches what the model says to the performer's range: calibrated, or learned while playing."""

    frozen: bool
    """Nothing is learned."""

    def __new__(
        cls, known: Sequence[tuple[float, float, float] | None] = ..., *, frozen: bool = False
    ) -> PerformerRange:
        """Of each of `STRETCHED` still, low and high, None: it is learned. Raises OptionError."""

    def calibrate(self, known: Sequence[tuple[float, float, float] | None]) -> None:
        """Plays in these from now on; None: learned while playing. Raises OptionError."""

    def spans(self) -> list[tuple[float, float, float]]:
        """Still, low and high of each as it plays now."""

    def learn(self, now: Sequence[float], activity: float, dt: float) -> None:
        """Learns of a moment (8,) that stands for `dt` seconds, while the body moves (`activity` 1);
        nothing where that or `dt` is no number, or `dt` below 0."""

@final
class Lead:
    """How far ahead each of the eight parameters is read, 0 to 400 ms.

    An automatic lead is the age of a frame when it leaves, `sound_ms`, `delay_ms`, what the model lags and
    `lags_ms` (8,), what smoothing lags; less where the model has no skill so far ahead.
    """

    ms: float | Literal["auto"]
    """Milliseconds, or auto."""
    sound_ms: float
    """How long what is sent takes to sound, 0 to 1000 ms."""

    def __new__(
        cls,
        ms: float | Literal["auto"],
        lags_ms: Sequence[float],
        *,
        sound_ms: float = 0.0,
        delay_ms: float = 0.0,
    ) -> Lead:
        """Raises OptionError."""

    @property
    def way_ms(self) -> float:
        """From the movement to the sound, without smoothing and the model: for what is announced."""

    @property
    def leads(self) -> list[float]:
        """Of the eight parameters in the coming frame, ms."""

    def follow(self, lags_ms: Sequence[float]) -> None:
        """From now on the parameters are smoothed otherwise."""

@final
class EventRule:
    """When events are announced (see `pyanticip.controls.EventTrigger`), and what is pending."""

    def __new__(
        cls,
        threshold: Sequence[float],
        refractory: Sequence[float],
        *,
        theta: float,
        max_buffer: int,
        reach_ms: float,
        last_moment: tuple[float, float] | None = None,
    ) -> EventRule:
        """Chances and seconds for each event; `last_moment`, lead in ms and certainty, makes beats wait.

        Raises OptionError for a `max_buffer` of 0.
        """

    def step(self, hazards: npt.ArrayLike, gate: float, lead_ms: float, dt: float) -> _Events:
        """The events of a frame, `dt` seconds after the last: name, strength 0..1, seconds ahead.

        `hazards` are (2, bins). What is called off comes first. Raises ShapeError.
        """

    def reset(self) -> None:
        """Forgets what was pending or announced."""

@final
class Shaper:
    """Shapes one output, value by value; a `Desk` that plays through it shares it."""

    open: bool
    """Whether the gate is open."""
    toggled: bool
    """Where the toggle stands."""
    seen: tuple[float, float] | None
    """The least and the greatest of what came in since it was set to (inf, -inf); None: nobody asks."""

    def __new__(cls, shape: _Shape) -> Shaper:
        """By a `pyanticip.controls.Shape`. Raises OptionError."""

    def __call__(self, value: float) -> float:
        """The shaped value, 0..1."""

    def reshape(self, shape: _Shape) -> None:
        """Shapes otherwise from the next value on; a gate that is open stays so."""

@final
class Desk:
    """The way of one performer's frame from the model's step to the values and events that go out.

    Lead, fallback to the scalars, a mapping's values, gain, smoothing, shapes, silence, the performer's hand,
    and the rule of the events; nothing that is set makes a value jump.
    """

    gain: float
    """Factor on loudness, 0 to 4."""
    bypass: bool
    """The scalars play instead of the model and of a mapping."""
    smoothing: float
    """Factor on every smoothing time, 0 to 100."""

    def __new__(
        cls,
        smoothing: Sequence[_Smoothing],
        silence: tuple[float, float, float],
        neutral: Sequence[float],
        rule: EventRule,
        lead: Lead,
    ) -> Desk:
        """A setting a parameter; seconds to hold, fade, catch up; the rule is copied, the lead is shared.
        Raises ShapeError, OptionError for settings out of their range or a neutral value outside 0..1."""

    def play(
        self,
        step: StepResult | None,
        scalars: npt.ArrayLike,
        taught: Sequence[float] | None,
        activity: float,
        dt: float,
        guessed: bool,
    ) -> tuple[list[float], _Events]:
        """A frame, `dt` seconds of source time after the last: the eight parameters and the events.

        `step` None: the scalars (7,) play. `taught` are a mapping's values, None: its own outputs hold;
        `activity` is 0 while the body stands still; of a `guessed` frame nothing is learned. Raises
        ShapeError; nothing has changed then.
        """

    def bridge(self, step: StepResult | None, away: float, dt: float) -> tuple[list[float], _Events]:
        """No frame: what the newest one's step, `away` seconds ago, says of now."""

    @property
    def range_sample(self) -> tuple[list[float], float, float] | None:
        """What will be learned of the last frame: the parameters now (8,), the activity, the seconds it
        stands for."""

    def set_range(self, range: PerformerRange | None) -> None:
        """Stretches what the model says to this range, which is shared; None: not at all."""

    def silence(self, dt: float) -> list[float]:
        """No frame for another `dt` seconds: hold, then fade."""

    def set_mapping(
        self,
        places: Sequence[int | None],
        smoothing: Sequence[_Smoothing],
        neutral: Sequence[float],
        begin: Sequence[float],
    ) -> None:
        """Plays a mapping's outputs from the next frame on: each one's place among the eight, or None.

        Of those beside them a setting, a neutral value and one to go on from each. Raises ShapeError, and
        OptionError as for a new desk.
        """

    def shape(self, main: Sequence[tuple[int, Shaper]], extra: Sequence[tuple[int, Shaper]]) -> None:
        """Shapes the eight, and what is taught beside them, by these and no others from the next frame on."""

    def resmooth(self, main: Sequence[_Smoothing], extra: Sequence[_Smoothing]) -> None:
        """Smooths otherwise from the next frame on. Raises ShapeError, OptionError."""

    def set_mode(self, mode: str) -> None:
        """Goes to playing, frozen, stopped or panic, without a jump. Raises OptionError for another."""

    def leave(self, seconds: float) -> None:
        """To neutral within so many seconds, whatever the mode. Raises OptionError for NaN."""

    def forget(self) -> None:
        """The stream begins anew: pending events are void, the values ease into what comes."""

    def resume(self, heard: Sequence[float], extras: Sequence[float]) -> None:
        """What was given lately was not heard: eases from what was, the eight and what is taught beside them.
        Raises a MotionError for values outside 0..1."""

    @property
    def mode(self) -> str:
        """playing, frozen, stopped or panic."""

    @property
    def extras(self) -> list[float]:
        """The taught outputs beside the eight, as they were given last."""

    @property
    def by_model(self) -> bool:
        """Whether the model plays, not the scalars."""

    @property
    def silent(self) -> float:
        """How long the source has been silent, seconds."""

FRAME_NS: int
"""Nanoseconds between two frames of the grid."""

@final
class FrameResult:
    """What became of a datagram that completed a frame."""

    @property
    def out(self) -> FrontOutput:
        """What the front end told."""

    @property
    def left_out(self) -> int:
        """How many frames before it were held (:meth:`Engine.hold`) and do not leave."""

    @property
    def step(self) -> StepResult | None:
        """What the model says of it, mixed with what is remembered; None: it did not step."""

    @property
    def failure(self) -> str | None:
        """Why the model failed."""

    @property
    def remembered(
        self,
    ) -> tuple[list[float], tuple[int, float, float, float] | None, list[tuple[int, float, float]]] | None:
        """Of a memory: trust (24 numbers; none without a step), the place in what was rehearsed, and the cues
        that are due (number, trust, seconds ahead); None: there is no memory."""

    @property
    def number(self) -> int:
        """The number under which it leaves."""

    @property
    def release_ns(self) -> int:
        """When it leaves."""

    @property
    def played(self) -> tuple[list[float], _Events] | None:
        """The eight parameters and the events; None where its turn has passed."""

    @property
    def stages_ns(self) -> tuple[int, int]:
        """Nanoseconds that the model took, and all after it."""

@final
class Engine:
    """One performer's way from a datagram to control values, and the slots of the 50 Hz grid that they leave
    in: each number once and in order, whatever the source's numbers do.

    Its parts are shared: what is set on them holds from the next frame on. The interpreter is let go while
    they work, but for what Python brings.
    """

    due_ns: int
    """When the next frame is late."""

    def __new__(
        cls,
        front: LiveFront | Any,
        desk: Desk,
        warm: Desk,
        now_ns: int,
        buffer: float | Literal["auto"] | None = None,
    ) -> Engine:
        """`front` completes frames (:class:`LiveFront`, or what gives a :class:`FrontOutput` as it does),
        `warm` is the desk of :meth:`prewarm`; `buffer` holds frames back, 0 to 100 ms or as long as covers
        98 % of the delays. Raises OptionError."""

    def set_model(self, backend: Any | None, core: MotionStream | None) -> None:
        """Steps `core`, or where there is none calls `reset()` and `step(features)` of the `backend`."""

    def set_memory(
        self, memory: Memory | None, follower: Follower | None = None, numbers: Sequence[int] = ...
    ) -> None:
        """Remembers with this, and follows; `numbers` are the follower's takes as the memory counts them."""

    def set_mapping(
        self, mapping: Callable[[FrontOutput, StepResult | None, float, int], list[float] | None] | None
    ) -> None:
        """Asks this for a mapping's values in every frame: what was heard, the step, the seconds since the
        last frame that came, the number."""

    def feed(
        self,
        datagram: bytes,
        t_arrival_ns: int,
        sender: str,
        now_ns: int,
        stepping: bool,
        stale: bool,
        fill: Callable[[list[int]], object] | None = None,
    ) -> FrameResult | None:
        """Takes one datagram of `sender`; None where it completes no frame.

        The model steps if `stepping`, and begins a stream if `stale`, or where the front end says so. With a
        buffer `fill` is told, before the frame has its slot, of the turns still to come (ns) of slots that it
        would leap over, and may skip these. Raises ShapeError for a mapping's values that do not fit.
        What :meth:`hold` completed before is part of the frame.
        """

    def hold(self, datagram: bytes, t_arrival_ns: int, sender: str, now_ns: int) -> None:
        """Takes one datagram that newer ones follow at once.

        The frame that it completes leaves with theirs, as one that fills a gap: :meth:`feed` steps and
        remembers all rows, and what goes out is of the newest.
        """

    def learn(self) -> None:
        """Learns of the newest frame what the next one needs, once it has left."""

    def prewarm(
        self, out: FrontOutput, step: StepResult | None, taught: Sequence[float] | None = None
    ) -> None:
        """Runs what the next datagram will run but for the model, on scratch states."""

    @property
    def newest(self) -> int:
        """The slot that left last; -1: none."""

    @property
    def away(self) -> int:
        """How many have left since the last that a datagram completed."""

    @property
    def buffer_ms(self) -> float | None:
        """How long frames are held back now; None: not at all."""

    def skip(self, silent: bool) -> None:
        """One slot without a datagram; `silent`: nothing is said of it."""

    def imagine(self, now_ns: int) -> FrontOutput | None:
        """The frame after the newest as the front end foresees it, if it belongs into the newest slot."""
