"""The Rust core; hand-written and checked against the binary by stubtest.

Besides the errors that are documented, an argument of another type raises a TypeError, a tuple or sequence of
another length a ValueError, and an integer out of range (-1 for an index or seed, say) an OverflowError.
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
"""Maximum magnitude of the voice's samples: -2 dBFS, so that peaks between samples stay below -1 dBFS."""
PRESETS: Final[dict[str, str]]
"""The voice's presets: name and description."""
SCALES: Final[dict[str, tuple[float, ...]]]
"""Scales by name, in semitones above the tonic."""

@final
class Samples:
    """The sounds of a folder, resampled to one rate and analysed, for the presets that play samples.

    Reads WAV, FLAC, Ogg Vorbis, MP3 and AIFF of any length and rate, in subfolders too, in the order of their
    names, up to 128 MiB of memory. Links to files are followed; hidden files and links to folders are
    skipped. Raises an `OptionError` if there is no sound.
    """

    def __new__(cls, folder: str | PathLike[str], sample_rate: float = 48_000.0) -> Samples: ...
    @staticmethod
    def any(folder: str | PathLike[str]) -> bool:
        """Whether a folder or one of its subfolders has a file that would be read, judging by names."""

    @property
    def summary(self) -> str:
        """What was read and what was left out, in one line."""

@final
class Voice:
    """The built-in voice: eight parameters (0..1, in the order of `PARAMETERS`) and two events in, stereo
    out.

    The block sizes of `render` do not affect the samples. Values are clamped to 0..1; non-finite ones are
    ignored and counted. Raises `OptionError`, `ShapeError`.
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
        """`preset` is the initial one (None: the first of `PRESETS`). `tonic` is the MIDI number of the
        lowest note, `scale` the semitones above it (rising from 0, below 12), `just` tunes them to five-limit
        ratios, `a4` is in Hz, `chords` are steps of the scale above the note; each phrase moves to the next
        one. `samples` must have the voice's sample rate; without them presets that play samples cannot be
        chosen.
        """

    def preset(self, name: str) -> None:
        """Crossfades to another of `PRESETS` within 0.4 s."""

    def set(self, index: int, value: float) -> None:
        """Sets parameter `index` (0..7); it takes effect within 64 samples."""

    def params(self, values: npt.NDArray[np.float32]) -> None:
        """Sets all eight parameters, shape (8,)."""

    def event(self, index: int, strength: float, seconds: float = 0.0) -> None:
        """Triggers event 0 (onset) or 1 (phrase) of strength 0..1, `seconds` (0..60) ahead of now."""

    def gain(self, value: float) -> None:
        """Moves the master gain to `value`, 0..1, within 30 ms."""

    def tempo(self, bpm: float, phase: float) -> None:
        """Sets the beat that the rhythm of `pulse` follows: 20 to 400 per minute, and its current phase,
        0..1.

        Values out of range are ignored and counted.
        """

    def limb(self, index: int, speed: float, height: float, stroke: float = 0.0) -> None:
        """Sets speed, height and the strength of a stroke now, 0..1 each, of limb `index` (0..3, see
        `LIMBS`)."""

    def fade(self, value: float, seconds: float) -> None:
        """Moves the master gain to `value`, 0..1, linearly over `seconds` (0..60).

        At 0 the output is exactly zero, and all tails are cut off.
        """

    def render(self, samples: int) -> npt.NDArray[np.float32]:
        """The next samples, shape (samples, 2), each within `VOICE_CEILING`; the GIL is released."""

    @property
    def latency(self) -> int:
        """Latency of the output in samples (the limiter's look-ahead)."""

    @property
    def sample_rate(self) -> float:
        """Samples per second."""

    @property
    def has_samples(self) -> bool:
        """Whether there are samples, and so every one of `PRESETS` can be played."""

    @property
    def position(self) -> int:
        """Stereo samples rendered so far."""

    @property
    def ignored(self) -> int:
        """Number of non-finite values ignored so far."""

# --- the seven scalars ---

SCALARS: Final[tuple[str, ...]]
"""Names of the seven scalars, in the order used everywhere."""

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
"""Maximum number of missing grid frames that are bridged; after a longer gap a stream starts again."""

@final
class Retargeter:
    """The mapping of one skeleton onto the canonical body, computed once.

    `names` has one name per joint, `parents` (J,) has -1 for a root, `offsets` (J, 3) are in metres, `rest`
    (J, 4) are the local rotations of a pose near a T-pose, by default the zero pose. Raises `SkeletonError`,
    naming what is missing, if names or hierarchy are not those of a body.
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
        """Position (T, 22, 3) and rotation (T, 22, 4) of the source of each canonical joint.

        In the source's own world; NaN for joints without a source.
        """

    def agreement(self, quats: npt.ArrayLike) -> tuple[list[float], str | None]:
        """Compares bone directions of poses (T, J, 4) with those of their canonical body.

        Returns the mean angle of each of `COMPARED_BONES` in degrees (NaN where the source lacks it), and a
        reason to reject the body, or None.
        """

    @property
    def world(self) -> list[float]:
        """Rotation of the source's world, w x y z: takes its up to +y and the direction its rest pose faces
        to +z."""

    @property
    def t_pose(self) -> npt.NDArray[np.float64]:
        """Rotation of the source of each canonical joint in the T-pose, in the rotated world, (22, 4) or
        NaN."""

    @property
    def ends(self) -> list[list[int] | None]:
        """Per canonical joint the indices of the first and the last source joint, or None."""

    @property
    def mask(self) -> npt.NDArray[np.bool_]:
        """Which canonical joints have a source, (22,)."""

    @property
    def sources(self) -> list[list[str]]:
        """Per canonical joint the names of the source joints composed into it, top down."""

def guess_joints(
    names: Sequence[str], parents: npt.ArrayLike, offsets: npt.ArrayLike
) -> list[list[int] | None]:
    """Per canonical joint the indices of the first and the last joint, judging by a skeleton's names, or
    None.

    Raises `SkeletonError` only if the hierarchy is invalid.
    """

def t_pose_deviation(
    names: Sequence[str],
    parents: npt.ArrayLike,
    offsets: npt.ArrayLike,
    pose: npt.ArrayLike | None = None,
) -> float:
    """Largest angle (radians) between an arm or leg bone of a pose (J, 4) and its direction in a T-pose.

    `pose` is by default the zero pose. Raises as `Retargeter` does.
    """

def standard_skeleton(target: str) -> tuple[list[str], npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Names, parents (J,) and offsets (J, 3) in metres of "mocopi" (27 joints), "vmc" (55), "xsens" (23),
    "rokoko" (21), "axis" (59) or "humanoid" (22)."""

def expand(
    target: str, quats: npt.ArrayLike, root: npt.ArrayLike
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Converts canonical (T, 22, 4) and hips (T, 3) to local rotations (T, J, 4) and root (T, 3) of `target`.

    Retargeting the result gives the canonical poses back, except for "rokoko", whose bones are rotated at
    rest in a way that `standard_skeleton` does not contain.
    """

@final
class Resampler:
    """Resamples timed poses to a uniform grid that starts with the first pose; slerp along the shortest arc.

    Gaps of up to `max_gap` grid frames are filled when the next pose arrives, a longer one starts a new grid;
    `None` fills any gap. Batch `resample` runs the same code. `curved` interpolates as the live front end
    does: by parabolas, and across gaps with the velocities at their ends, so that the pose that ends a gap
    waits for the next.
    """

    def __new__(
        cls, joints: int, rate_out: float = ..., *, max_gap: int | None = ..., curved: bool = False
    ) -> Resampler: ...
    def push(
        self, t_seconds: float, quats: npt.ArrayLike, root: npt.ArrayLike
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Adds a pose (J, 4), (3,); returns the grid frames that it completes, (k, J, 4) and (k, 3)."""

def resample(
    quats: npt.ArrayLike, root: npt.ArrayLike, rate_in: float, rate_out: float
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Resamples a clip (T, J, 4), (T, 3) from `rate_in` to `rate_out` Hz; both start with the same frame."""

# --- features ---

RATE: Final[float]
"""Rate of the grid, Hz."""
FEATURES_VERSION: int
"""Version of the feature layout."""
FEATURE_COUNT_V1: int
"""Number of features in version 1; they come first."""
FEATURE_NAMES: tuple[str, ...]
"""Names of the 279 features of a 50 Hz frame, in order."""

def motion_features(
    quats: npt.ArrayLike, root: npt.ArrayLike, mask: npt.ArrayLike, *, window: int = 256
) -> npt.NDArray[np.float32]:
    """Features (T, 279) of canonical frames at 50 Hz: rotations (T, 22, 4), hips (T, 3) m, mask (22,).

    `window` is the window of the seven scalars. The live front end runs the same code frame by frame.
    """

def body_kinematics(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Kinematics (T, 177) of the canonical body, from contiguous feature rows (T, 231 or 279).

    Positions, velocities and heights of the joints relative to the hips, and measures of the movement, scaled
    to unit variance: the motion model's inputs besides a row. Raises ShapeError.
    """

@final
class StepResult:
    """Model output for the newest frame. Each array property returns a new copy."""

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
        """Values are stored in single precision; the properties give the shapes. `plan` has arrays: `codes`
        (K,) of integers, and `weights` (K,). Raises ShapeError."""

    @property
    def params(self) -> npt.NDArray[np.float32]:
        """Sound parameters (8, 5), linear 0..1, at the horizons."""

    @property
    def hazards(self) -> npt.NDArray[np.float32]:
        """Hazard (2, 25): probability of each event in each 20 ms bin ahead if it has not come before."""

    @property
    def scalars(self) -> npt.NDArray[np.float32]:
        """The seven scalars from the refined head, (7,)."""

    @property
    def gate(self) -> float:
        """Commitment, 0..1."""

    @property
    def hidden(self) -> npt.NDArray[np.float32] | None:
        """The trunk's hidden state (D,), the input of taught outputs; None if the model does not provide
        it."""

    @property
    def field(self) -> npt.NDArray[np.float32] | None:
        """Trust 0..1 and curvature of the control field of each block of the fast pathway, (blocks, 2)."""

    @property
    def plan(self) -> Any:
        """The plan of a planning model, as passed in; None if the model does not plan."""

    @property
    def finite(self) -> bool:
        """Whether parameters, hazards and gate are all finite."""

VECTOR_WIDTH: Final[int]
"""Number of floats per SIMD vector in the kernels on this processor: 16 with AVX-512, 8 with AVX2, 4 with
NEON, else 1."""

@final
class MotionStream:
    """The motion model on one performer's stream: its weights and its state.

    Runs the model family that comes with the package, of any size, from feature row to controls, in float32
    on one thread without the GIL; tests compare it with the torch model.
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
        """Reads what is needed of a checkpoint's `tensors`.

        `layers` and `past` are those of the fast and the slow pathway, `hidden` is the number of feed-forward
        units of a block, `stride` the number of frames in a pool. `visible` says for each column that the
        model reads whether the projection sees it. `distance` is the distance of two frames in the bias
        kernel; if `positive`, its decay is a softplus of its parameter. `units` is the size of the control
        head; if `gated`, the commitment scales the evidence for events. Raises ShapeError for a tensor that
        is missing or does not fit.
        """

    def new_stream(self) -> MotionStream:
        """A new stream of the same model; both share the weights."""

    def step(self, rows: npt.ArrayLike) -> StepResult:
        """Steps feature rows (n, 231 or 279), oldest first; returns the output for the newest.

        Raises ShapeError for another shape or non-finite values; the state is then unchanged.
        """

    def imagine(self, row: npt.ArrayLike) -> StepResult:
        """What `step` would return for this row (1, 231 or 279); the state does not change."""

    def prewarm(self) -> None:
        """Runs a step and discards it; the state does not change."""

    def reset(self) -> None:
        """Starts a new stream."""

    def snapshot(self) -> npt.NDArray[np.float32]:
        """A copy of the complete state.

        In order: frames, pools, the past embedded frames (taps - 1, width) oldest first, sum of the open pool
        (width,), last result of the slow pathway (width,), keys and values of all past steps in view, strokes
        if they are followed, and the last poses if they are read.
        """

# --- the live front end ---

@final
class TempoTracker:
    """Tracks the beat of a body's steps and strokes in feature rows at 50 Hz.

    Its output for a frame: tempo in beats per minute (50 to 250; the last known one, 0 before any), phase
    0..1 (0 at the beat, where the model's onsets are), trust 0..1 (0: no beat).
    """

    def __new__(cls) -> TempoTracker: ...
    def push_many(self, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """The beat with each of rows (T, 231 or 279) as the newest: (T, 3). Raises :class:`ShapeError`."""

@final
class Ensemble:
    """Relations between ``performers`` (1 to 256): call ``push`` with each one's frames as they come, then
    ``step`` once every 20 ms for all. Raises a ValueError for another number.

    Compares how fast each joint turns, so bodies of any size and suits with any axes are comparable. Uses
    only the past, with exponential forgetting. Compares every pair, so doubling the performers quadruples the
    cost of a step.
    """

    def __new__(cls, performers: int) -> Ensemble: ...
    def push(self, performer: int, frame: FrontOutput) -> None:
        """Adds one performer's newest frame; a root at the origin counts as an unknown place. Raises a
        ValueError for an unknown performer."""

    def step(self) -> tuple[float, int, float, float, float, float]:
        """The current relations: synchrony, leader, lag_ms, trust, distance, posture.

        ``synchrony`` 0..1 is how similarly the speeds of the joints rose and fell in the last 2 s, averaged
        over all pairs; ``leader`` (-1: nobody) is on average ``lag_ms`` (at most 1000) ahead of the others,
        with ``trust`` 0..1, over the last 4 s; ``distance`` is the mean over all pairs in metres (-1: places
        unknown), ``posture`` the mean angle between their joints in radians, independent of heading.
        Performers without a frame for half a second are left out.
        """

@final
class FrontOutput:
    """The 50 Hz grid frames completed by one datagram; the newest of them in full."""

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
        """For front ends written in Python: features (n, 279), poses (n, 22, 4), n >= 1; the others are the
        properties below. Raises ShapeError, also for non-finite features or root, and for rotations whose
        length is not 0.5 to 2."""

    @property
    def features(self) -> npt.NDArray[np.float32]:
        """Feature rows (n, 279) in time order, read-only; n > 1 after a gap or from a source slower than the
        grid."""

    @property
    def reset(self) -> bool:
        """Whether the first row starts a new stream: reset the model's state before stepping."""

    @property
    def seq(self) -> int:
        """Grid index of the newest row since the stream's first frame."""

    @property
    def t_source_ns(self) -> int:
        """Source time of the newest row, in nanoseconds of the source's clock."""

    @property
    def t_local_ns(self) -> int:
        """The same on the local monotonic clock: the earliest time at which such a frame arrives."""

    @property
    def expected_ns(self) -> int:
        """Local time at which the datagram that completes the next grid frame is expected."""

    @property
    def late_ns(self) -> int:
        """Local time from which the next grid frame counts as late: usually a quarter of the interval plus
        the jitter so far after `expected_ns`."""

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
        """The beat in the newest row, as from :class:`TempoTracker`."""

    @property
    def limbs(self) -> list[float]:
        """For each of `LIMBS` in the newest row: speed relative to the hips (0.63 at 1.5 m/s), height (a
        hand: 0 hanging, 0.5 at the shoulder, 1 stretched upwards; a foot: 1 at 0.9 m), strength of a stroke
        that ended in these rows (0: none); 12 numbers in 0..1.
        """

    @property
    def filled(self) -> int:
        """Number of rows that fill a gap."""

    @property
    def valid(self) -> bool:
        """False while more than a tenth of the scalars' window was not measured."""

    @property
    def stages_ns(self) -> tuple[int, int, int]:
        """Nanoseconds spent on decoding, on retargeting and resampling, on scalars and features."""

@final
class LiveFront:
    """Datagrams in, feature rows on the 50 Hz grid out; one performer, one protocol.

    `source` is one of `PROTOCOLS`; `rate` must be 50, the rate of the grid; `window` is the window of the
    seven scalars. `steady` puts a noise gate before the features, which holds the pose of a body that stands
    still; `noise` (22,) is the known jitter of each joint in radians (NaN: unknown). A datagram never raises;
    faults in it are counted. If there are several senders, one of them plays. The output depends on the
    player's own sequence numbers and times; on arrival times only where it has none, or where they contradict
    them.
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
        """Processes a datagram of `sender` that arrived at `t_arrival_ns`; `None` if it completes no grid
        frame or another sender plays."""

    def prewarm(self) -> None:
        """Loads what the next frame is likely to need into the caches; changes no state."""

    def imagine(self) -> FrontOutput | None:
        """The grid frame after the newest, extrapolated from a moving body, for when its datagram is late;
        changes no state. `None` before the first frame."""

    def counters(self) -> dict[str, int]:
        """Counts since the start.

        Keys: packets, frames, numbered, emitted, filled, lost, doubled, reordered, truncated, malformed,
        alien, strange (of another clock), refused (of a refused body), ignored (of other senders), resets.
        """

    def senders(self) -> list[tuple[str, bool, int, int]]:
        """All senders seen, the player first: name, whether it plays, good frames, last arrival in ns."""

    def listen_to(self, sender: str | None) -> bool:
        """Lets only this sender play (a name, or the host in it), or any if `None`; returns True if it has
        been seen."""

    @property
    def timing(self) -> tuple[float | None, float, float]:
        """Timing of the player's stream: frames per second (`None` at first), spread of the delays in ms,
        drift in ppm."""

    @property
    def refusal(self) -> str | None:
        """Why the player's body cannot be played, or `None`."""

    @property
    def unplayed_reason(self) -> str | None:
        """Why part of the player's frames is not played (only for VMC bones), or `None`."""

    def reset(self) -> None:
        """Clears the stream, the skeleton and the choice of the player; counters continue."""

    @property
    def mask(self) -> npt.NDArray[np.bool_]:
        """Which canonical joints the features have, (22,), as far as known: measured, or solved from few
        sensors."""

    @property
    def confidence(self) -> npt.NDArray[np.float32]:
        """Confidence in each joint of the newest frame, (22,): 1 if measured; if solved, `exp(-e / 0.5)` for
        an expected error of e radians; 0 if there is none."""
    @property
    def noise(self) -> npt.NDArray[np.float64] | None:
        """The jitter of each joint as learned so far, (22,) radians, rms about each axis; `None` without a
        gate."""

    @property
    def skeleton(self) -> list[str] | None:
        """The source's joint names; `None` before they are known."""

    @property
    def has_skeleton(self) -> bool:
        """Whether the player has sent its skeleton, or never sends one (VMC). Until then a standard body is
        used."""

def solve_trackers(
    names: Sequence[str], quats: npt.ArrayLike, positions: npt.ArrayLike
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Solves trackers at body parts with these names, as `LiveFront` does: quats (T, K, 4) wxyz and positions
    (T, K, 3) m in the world, NaN where unknown. Returns local rotations (T, 22, 4) of the canonical body, and
    which joints (22,) are measured and which placed. In the first frame the body stands straight. Placed
    joints only set the positions of head, hands and feet (see `complete_body`); unmeasured joints stay at
    rest. Raises `ShapeError` for tables that do not fit the names."""

def complete_body(
    quats: npt.ArrayLike, mask: npt.ArrayLike, placed: npt.ArrayLike | None = None
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Canonical frames (T, 22, 4) at 50 Hz with all joints, as `LiveFront` completes those of few sensors,
    and the confidence (T, 22) in each joint.

    `mask` (22,) says which joints are measured; the others may have any rotation in `quats`, but not NaN or
    zeros. Measured joints keep their rotation in the world. Frames with more than 10 measured joints, or with
    none, are returned unchanged. `placed` (22,) are joints that only give the position of head, hands and
    feet: these are solved however many joints are measured; limbs point there and bend as far as the distance
    requires. Raises ShapeError, OptionError.
    """

# --- following what was rehearsed ---

@final
class Follower:
    """Locates the performer in rehearsed takes, from one frame of the 50 Hz grid to the next.

    `takes` are canonical rotations, each (T, 22, 4) w x y z at 50 Hz with T >= 1, of which every second frame
    is used; they are consumed one by one and not kept. Does not look ahead. Raises `ShapeError`.
    """

    def __new__(cls, takes: Iterable[npt.ArrayLike]) -> Follower: ...
    def poses(self, take: int) -> npt.NDArray[np.int16]:
        """Every second pose (N, 22, 4) of a take, starting with the first, in units of 1/32767. Raises
        `OptionError`."""

    def push_many(self, quats: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Adds T frames (T, 22, 4); returns rows (T, 4) of take, seconds in it, tempo relative to the
        rehearsal (0: still), trust 0 to 1; -1, NaN, NaN, 0 while in no take as far as known."""

    def arm(self, cues: Cues, same: Sequence[int | None] = ...) -> None:
        """Sets the cues to announce in the frames that an `Engine` receives from now on.

        `same` gives for each cue the index of the previous cue it equals (`None`: none), so that a cue that
        has been announced is not announced again.
        """

@final
class Cues:
    """Moments of the rehearsal, each announced a chosen time before the performer reaches it.

    `cues` are take, seconds in it, and seconds ahead (0 to 2). Each is announced once per pass, at the first
    frame from which it is no farther away; again only after the performer went back before it. `also` are
    index of a cue, another take that shows the same, and seconds in that. Raises `OptionError`.
    """

    def __new__(
        cls, cues: Sequence[tuple[int, float, float]], also: Sequence[tuple[int, int, float]] = ...
    ) -> Cues: ...
    def push(self, place: tuple[int, float, float, float] | None, /) -> list[tuple[int, float]]:
        """Takes the place of a frame, as from a `Follower` (None for its -1); returns indices of cues and the
        seconds until each is due.

        A show's `Engine` (`Follower.arm`) also uses the belief in the other takes.
        """

    def passed(self, cue: int) -> None:
        """Marks this cue as passed: it is announced again in the next pass. Raises `OptionError`."""

GESTURE_FRAMES: tuple[int, int]
"""Minimum and maximum length of a take of a gesture, in frames."""

@final
class Spotter:
    """Spots taught gestures: which are under way, how far each is and when it ends; online subsequence
    alignment.

    `takes` are the index of a gesture and canonical rotations (T, 22, 4) at 50 Hz from the gesture's start to
    its end, T within `GESTURE_FRAMES`; at most 200 takes and 20,000 frames. `thresholds` give for each
    gesture its maximum cost, 0.0001 to 10 m; it is recognised when the share `at` (0.1 to 0.8) of it is done.
    Does not look ahead. Raises `ShapeError`, `OptionError`.
    """

    def __new__(
        cls, takes: Sequence[tuple[int, npt.ArrayLike]], thresholds: Sequence[float], *, at: float = 0.3
    ) -> Spotter: ...
    def push(self, quats: npt.ArrayLike) -> list[tuple[float, float, float] | None]:
        """Adds a frame (22, 4); returns per gesture progress 0 to 1, seconds until it ends, likelihood 0 to
        1.

        `None` if it is not under way; always `None` for at least a frame between two of a kind.
        """

    def push_many(self, quats: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """The same for T frames (T, 22, 4): (T, gestures, 4), with NaN, NaN, 0 for `None`.

        The fourth is the mean cost (m) of the best path that is far enough to be recognised; inf if there is
        none.
        """

    def reset(self) -> None:
        """Starts a new run with the next frame."""

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
"""The protocols whose datagrams become poses, the most common first."""
VRCHAT_TRACKERS: list[str]
"""The canonical joint of each of VRChat's trackers, 1 to 8 and head, as SlimeVR numbers them."""

def recognise(datagram: bytes, /) -> str | None:
    """Guesses the kind of sender from a datagram.

    One of `PROTOCOLS`, "wek", "phone", "osc" (other OSC senders), or None.
    """

@final
class OscBundle:
    """An OSC bundle with a fixed layout, whose numbers are replaced for every frame."""

    def __new__(
        cls, layout: bytes, count_at: int | None, places: Sequence[tuple[int, int, int]]
    ) -> OscBundle:
        """`layout` are the bundle's bytes, `count_at` the offset of its int32, if it has one; `places` give
        for each float32 its offset, the list its number comes from, and the index in that list. Raises
        OptionError.
        """

    def pack(
        self,
        count: int,
        lists: Sequence[Sequence[float]],
        tail: Sequence[tuple[bytes, Sequence[float]]],
    ) -> bytes:
        """The bundle with these numbers, followed by bytes each with its floats; a number that its list lacks
        keeps its value."""

@final
class Decoder:
    """Decodes one sender's datagrams of one of `PROTOCOLS`."""

    def __new__(cls, protocol: str, /) -> Decoder: ...
    def feed(self, datagram: bytes, /) -> list[dict[str, Any]]:
        """Decodes a datagram; returns what it completes, oldest first.

        A frame: `kind` "frame", `seq`, `time` (seconds or None), `root` ((3,) m or None), `ids` (n,), `quats`
        (n, 4) wxyz local, `positions` (n, 3) m, `fresh` (n,) bool, `unusable` (int). A skeleton: `kind`
        "skeleton", `names`, `parents`, `offsets` (J, 3) m, `rest` (J, 4), `rate` (Hz or None). Trackers
        without a skeleton: `kind` "trackers", `seq`, `time`, `names` (K,), `quats` (K, 4) wxyz and
        `positions` (K, 3) m in the world, NaN where unknown. Bones that a VMC frame lacks keep their last
        pose, with `fresh` False; bones never seen are not listed. Raises `WireError` for a malformed
        datagram that completes nothing.
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

    `stream_time` in seconds since the start of the stream; without `unix_time` in the format of older apps.
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

    `quats` (J, 4) wxyz and `positions` (J, 3) m, both local; `time` in seconds (not sent by axis; vmc and
    rokoko do not send `seq`). `ids` index the protocol's bones, by default 0..J-1; `rate` is only used by
    rokoko. Raises ShapeError, OptionError.
    """

def encode_natnet_skeleton(names: Sequence[str], parents: Sequence[int], offsets: npt.ArrayLike) -> bytes:
    """A NatNet 4.1 model definition: offsets (J, 3) m local, parents before their children, -1 for none."""

def encode_natnet_frame(
    seq: int, time: float, quats: npt.ArrayLike, positions: npt.ArrayLike, parents: Sequence[int]
) -> bytes:
    """A NatNet 4.1 frame: quats (J, 4) wxyz, positions (J, 3) m, both local; time in seconds."""

def encode_vrchat_frame(quats: npt.ArrayLike, positions: npt.ArrayLike) -> bytes:
    """A bundle of the first K of `VRCHAT_TRACKERS`: quats (K, 4) wxyz, positions (K, 3) m, both in the world
    of a body that faces -z."""

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
    """The 12 bytes at the start of a recording."""

def recording_check(data: bytes, /) -> tuple[int, int]:
    """The (major, minor) version of the recording that starts with `data`; raises `FormatError`."""

def recording_frame(payload: bytes, /) -> bytes:
    """One record with this payload: length, checksum, payload; raises `FormatError` above 16 MiB."""

def recording_next(data: bytes, at: int, /) -> tuple[str, int, int]:
    """What is at offset `at`.

    ("record", start, end of the payload), ("more", at, end as far as known) if `data` ends within the record,
    ("corrupt", at, end) if the checksum does not match, ("lost", at, length) if the length is impossible.
    """

def recording_find(data: bytes, at: int, ended: bool, /) -> tuple[int, bool]:
    """The first offset from `at` on of a complete record that is a msgpack array with a matching checksum,
    and True.

    Otherwise the offset at which to continue with more bytes, and False; `ended` says that there are none.
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

    `moves` (B, C, L, 5) are the weights of inc, dec, keep, to place 0 and to place 1; `start` (B, C, P);
    `gamma` (C,) are exponents; `jumps` (B, J, L, P) belong to the first J cursors. All float32 or all
    float64, C-contiguous, else `ShapeError`.
    """

def prism_places(
    moves: npt.NDArray[Any],
    start: npt.NDArray[Any],
    gamma: npt.NDArray[Any] | None,
    jumps: npt.NDArray[Any] | None,
    table: npt.NDArray[Any],
    out: npt.NDArray[Any],
    last: npt.NDArray[Any],
    saved: npt.NDArray[Any] | None,
) -> None:
    """Histograms after every step times `table` (P, D), into `out` (B, C, L, D), and those after the last
    step into `last` (B, C, P); the GIL is released.

    `saved` (B, C, ceil(L / 16), P) receives what the backward pass needs.
    """

def prism_places_backward(
    moves: npt.NDArray[Any],
    start: npt.NDArray[Any],
    gamma: npt.NDArray[Any] | None,
    jumps: npt.NDArray[Any] | None,
    table: npt.NDArray[Any],
    saved: npt.NDArray[Any],
    grad: npt.NDArray[Any],
    grad_last: npt.NDArray[Any] | None,
    d_moves: npt.NDArray[Any],
    d_start: npt.NDArray[Any],
    d_gamma: npt.NDArray[Any] | None,
    d_jumps: npt.NDArray[Any] | None,
) -> None:
    """Gradients of a scan's inputs, into the last four arguments, from `saved` and the gradients of the
    outputs."""

# --- the recurrence of PRISM positions' gated recurrent unit ---

def prism_gru(
    projected: npt.NDArray[Any],
    start: npt.NDArray[Any],
    weights: npt.NDArray[Any],
    bias: npt.NDArray[Any],
    out: npt.NDArray[Any],
    gates: npt.NDArray[Any] | None,
) -> None:
    """Hidden states after every step, into `out` (B, L, H); the GIL is released.

    `projected` (B, L, 3 H) are the input's contributions to reset, update and new; `start` (B, H); recurrent
    `weights` (3 H, H) and `bias` (3 H,). `gates` (B, L, 4 H) receives what the backward pass needs. All
    float32 or all float64, C-contiguous, else `ShapeError`.
    """

def prism_gru_backward(
    start: npt.NDArray[Any],
    weights: npt.NDArray[Any],
    bias: npt.NDArray[Any],
    out: npt.NDArray[Any],
    gates: npt.NDArray[Any],
    grad: npt.NDArray[Any],
    d_projected: npt.NDArray[Any],
    d_recurrent_new: npt.NDArray[Any],
    d_start: npt.NDArray[Any],
) -> None:
    """Gradients, into the last three arguments, from the outputs and their gradient: of `projected`, of the
    hidden states' contribution to new before the reset (B, L, H), and of `start`."""

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

    `seen` (W + N, B L) are fibres and hidden layer of the steps; `bias` (N,), `last` (1, N), `end` (1,),
    `raw` () the parameters; `decay` is that of the average, `bend` of the scale. All float32 or all float64,
    C-contiguous, else ShapeError.
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
    """Gradients of `seen`, `bias`, `last`, `end` and `raw`, written into the five arrays of `into`.

    `grads` are the gradients of the first five of `out`, None where there is none; else as
    :func:`field_forward`.
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
    """The gradient of causal attention with respect to `gates` (B, L), which are added to the scores of its
    keys, into `out` (B, L); single-threaded unless `parallel`; the GIL is released.

    `tensors`: queries, keys, values, output, the gradients of output and of values, each (B, L, H, d), and
    the log-sum-exp (B, L, H) of the scores; each as its flat numbers in memory order, and its strides (in
    numbers) from one row, step and head to the next. `scale` is applied to the products of queries and keys.
    All float32 or all float64, C-contiguous, else ShapeError.
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
    """Encodings at the positions given by embeddings (B, L, D) float32, into `out` of the same shape; returns
    how many rows fell back to their step numbers.

    `table` (rows, D or D + 1) holds pairs of sine and cosine of integer positions, `speeds` the radians per
    position of each pair; all float32, C-contiguous. Positions may exceed the table's rows by half of one at
    most. Raises ShapeError; `out` is then undefined. The GIL is released.
    """

def encode_positions(
    positions: npt.NDArray[Any],
    table: npt.NDArray[Any],
    speeds: npt.NDArray[Any],
    out: npt.NDArray[Any],
) -> None:
    """Encodings of positions (N,) float64, into `out` (N, D); otherwise as `trajectory_encode`."""

# --- planning ---

def plan_targets(
    codes: npt.NDArray[np.int64],
    place: npt.NDArray[np.int64],
    gone: npt.NDArray[np.bool_],
    whole: npt.NDArray[np.bool_],
) -> npt.NDArray[np.float64]:
    """Targets for codes to come and codes that have gone, at the first L steps of `codes` (B, N); negative
    codes are none. Returns the values that targets of codes in the next K steps have, after a leading 0.

    The target of a code is the sum of log(K + 2 - d) over the distances d at which it comes, divided by the
    sum over all distances. `place` (B, L, K) is the index of the value of the code d + 1 steps ahead, 0 if
    there is none or it also comes nearer; `gone` (B, L, K) says whether the code K - 1 - d steps back is none
    of those after it, up to the last of the steps ahead; `whole` (B, L) whether all K exist. All
    C-contiguous, else ShapeError. The GIL is released.
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
    """The codes with the largest contrasts of each step, largest first, into `codes` and `found` (steps,
    slots).

    `comes` (steps, K) are codes to come; of repeated ones the first counts. The score of one is drawn from
    the Beta distribution with those `shapes` (U, 2) that `place` (steps, K) selects, 0 for codes that do not
    count. All others have independent scores: `quantiles` are the logarithms of theirs, ascending, evenly
    spaced in the logit of the probability from -`edge` to `edge`. A contrast is the logarithm of a score
    minus `log_frequency` (V,). The result depends on `seed` (0 to 2^64 - 1), not on the number of threads.
    All C-contiguous, else ShapeError. The GIL is released.
    """

def plan_products(
    asked: npt.NDArray[Any], table: npt.NDArray[Any], codes: npt.NDArray[np.int64], out: npt.NDArray[Any]
) -> None:
    """Products of `asked` (N, J, D) with the rows of `table` (V, D) selected by `codes` (N, K), into `out`
    (N, J, K). Numbers all float32 or all float64, C-contiguous, else ShapeError. The GIL is released.
    """

def plan_spread(
    shares: npt.NDArray[Any], grad: npt.NDArray[Any], codes: npt.NDArray[np.int64], table: npt.NDArray[Any]
) -> None:
    """Adds `grad` (N, J, D) times `shares` (N, J, K) to the rows of `table` (V, D) selected by `codes` (N,
    K); otherwise as `plan_products`.
    """

# --- what a performer did before ---

TEACHER_REACH: int
"""Number of frames after a frame that the offline teacher depends on."""
KEY_SIZE: int
"""Number of values in the key of a moment."""
KEYS_VERSION: int
"""Version of the key layout."""

def teacher_parameters(quats: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """The offline teacher's parameters (T, 8) of a whole take (T, 22, 4) at 50 Hz. Raises ShapeError."""

@final
class CausalTwins:
    """The teacher's parameters computed causally, at several group delays in seconds.

    A delay of 0 does not smooth; density and pulse are smoothed with three times the delay. `motion_delay_s`
    is the delay of the smoothing before differentiation. Raises OptionError for a delay outside 0 to 10 s.
    """

    def __new__(cls, delays_s: Sequence[float], *, motion_delay_s: float = ...) -> CausalTwins: ...
    def push(self, quats: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """The parameters (T, D, 8) of the next frames (T, 22, 4). Raises ShapeError."""

    def reset(self) -> None:
        """Starts a new stream."""

@final
class Memory:
    """One performer's memory: stored moments, and the stream that reads and adds to them.

    One moment is stored every 40 ms, with what the offline teacher reports after it, once that is known (1.7
    s later). When there is no room left, the oldest moment learned from the stream is dropped; rehearsed
    moments stay. Rotations are canonical, local, w,x,y,z, at 50 Hz; parameters are 0..1. The same input gives
    the same bits.
    """

    def __new__(cls, capacity: int = 90_000) -> Memory:
        """Room for `capacity` moments: by default an hour, about 40 MB, allocated on use. Raises
        OptionError."""

    def push(
        self,
        quats: npt.ArrayLike,
        params: npt.ArrayLike | None = None,
        place: tuple[int, float, float, float] | None = None,
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Adds the next frame (22, 4) and the model's parameters for it (8, 5), if any.

        `place` is a `Follower`'s output for the frame: number of the rehearsed take, seconds in it, tempo,
        trust (None for its -1); what was rehearsed there is then used as far as the place is trusted. Returns
        the mixed parameters (8, 5) at the model's horizons, and trust (8, 3) at 100, 200 and 400 ms: the
        share of the mixture that is forecast, by the model or from memory, rather than held. Raises
        ShapeError, also for rotations whose length is not 0.5 to 2; the state is then unchanged.
        """

    def push_many(
        self,
        quats: npt.ArrayLike,
        params: npt.ArrayLike | None = None,
        places: npt.ArrayLike | None = None,
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Like T single pushes: (T, 22, 4), (T, 8, 5) and (T, 4) give (T, 8, 5) and (T, 8, 3).

        Rows of parameters and places that are not finite count as missing.
        """

    def imagine(self, step: StepResult) -> StepResult:
        """The step with the parameters mixed as if the model had given it for the newest frame; changes no
        state. Raises ShapeError."""

    def reset(self) -> None:
        """Ends the take. Moments and the learned weights of the experts stay."""

    def rehearse(self, name: str, quats: npt.ArrayLike) -> None:
        """Stores a whole take (T, 22, 4) permanently.

        Raises ShapeError, and OptionError if there is no room or moments were learned from the stream
        already.
        """

    def clear(self, *, rehearsed: bool = False) -> None:
        """Forgets moments learned from the stream, and with `rehearsed` the rehearsed ones too."""

    learning: bool
    """Whether new moments are learned from here on. Stored moments are used either way."""

    @property
    def takes(self) -> list[str]:
        """Names of the rehearsed takes."""

    @property
    def capacity(self) -> int:
        """Maximum number of moments."""

    @property
    def rehearsed(self) -> int:
        """Number of rehearsed moments."""

    @property
    def forgotten(self) -> int:
        """Number of moments dropped to make room."""

    def __len__(self) -> int:
        """Number of moments."""

    def moments(
        self, first: int = 0, count: int | None = None
    ) -> tuple[list[str], npt.NDArray[np.int16], npt.NDArray[np.uint16], npt.NDArray[np.uint32]]:
        """Stored moments, oldest first, `count` of them starting with `first`: names of all takes, keys (N,
        182), what followed (N, 24), and take and frame (N, 2). Moments learned from the stream get takes of
        their own."""

    def restore(
        self,
        takes: Sequence[str],
        keys: npt.NDArray[np.int16],
        followed: npt.NDArray[np.uint16],
        origins: npt.NDArray[np.uint32],
    ) -> None:
        """Replaces all moments by those from `moments`; they count as rehearsed.

        Raises ShapeError and OptionError; the memory may be empty then.
        """

# --- controls: from model output to control values ---

HORIZONS_MS: Final[tuple[int, ...]]
"""Horizons of the model's parameters, in milliseconds."""
BIN_MS: Final[float]
"""Width of a hazard bin, in milliseconds."""
NEUTRAL: Final[tuple[float, ...]]
"""The eight parameters when there is no performer: silent and centred."""

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
    """Control vector (8,) from the seven scalars alone, used when there is no model output or it is late.

    A still performer is silent, novelty away from the centre of the recent range is loud, an uncertain course
    is dense, an unsteady one rough. Raises ShapeError.
    """

STRETCHED: tuple[int, ...]
"""Indices of the parameters that are stretched to a performer's range: loudness and brightness."""

MAX_STILL: float
"""Maximum of a range's `still`."""

def stretched(value: float, ends: tuple[float, float, float]) -> float:
    """`value` in 0..1 stretched to a performer's range: 0 up to still, .1 at low, .75 at high, 1 at 1.

    `ends` are still, low (5th percentile) and high (95th percentile while moving). Raises OptionError unless
    they are ascending.
    """

@final
class PerformerRange:
    """Stretches model output to the performer's range, calibrated beforehand or learned while playing."""

    frozen: bool
    """Whether learning is off."""

    def __new__(
        cls, calibrated: Sequence[tuple[float, float, float] | None] = ..., *, frozen: bool = False
    ) -> PerformerRange:
        """`calibrated` has still, low, high of each of `STRETCHED`; None is learned. Raises OptionError."""

    def calibrate(self, calibrated: Sequence[tuple[float, float, float] | None]) -> None:
        """Sets the calibrated ranges; None is learned while playing. Raises OptionError."""

    def spans(self) -> list[tuple[float, float, float]]:
        """The current still, low and high of each."""

    def learn(self, now: Sequence[float], activity: float, dt: float) -> None:
        """Learns from parameters (8,) that count for `dt` seconds, only while the body moves (`activity` 1);
        ignored if a value or `dt` is NaN, or `dt` is negative."""

@final
class Lead:
    """How far ahead each of the eight parameters is read, 0 to 400 ms.

    An automatic lead is the sum of a frame's age when sent, `sound_ms`, `delay_ms`, the model's lag and
    `lags_ms` (8,), the lags of the smoothing; less where the model cannot predict that far ahead.
    """

    ms: float | Literal["auto"]
    """Fixed lead in milliseconds, or "auto"."""
    sound_ms: float
    """Delay from sending to sound, 0 to 1000 ms."""

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
    def event_lead_ms(self) -> float:
        """Delay from movement to sound without smoothing and model lag: the lead of announced events."""

    @property
    def leads(self) -> list[float]:
        """Leads of the eight parameters, ms."""

    def set_frame_age(self, ms: float) -> None:
        """Set the age of the forecast that leaves next, ms: it is read that much farther ahead."""

    def set_lags(self, lags_ms: Sequence[float]) -> None:
        """Sets the lags of the smoothing."""

@final
class EventRule:
    """The rule by which events are announced (see `pyanticip.controls.EventTrigger`), and its state."""

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
        """Thresholds and refractory seconds of each event; `last_moment` (lead in ms, sure chance) delays
        beats.

        Raises OptionError for a `max_buffer` of 0.
        """

    def step(self, hazards: npt.ArrayLike, gate: float, lead_ms: float, dt: float) -> _Events:
        """The events of a frame, `dt` seconds after the last: name, strength 0..1, seconds ahead.

        `hazards` are (2, bins). Cancellations come first. Raises ShapeError.
        """

    def reset(self) -> None:
        """Clears pending and announced events."""

@final
class Shaper:
    """Shapes one output, value by value; shared with a `Desk` that uses it."""

    open: bool
    """Whether the gate is open."""
    toggled: bool
    """Whether the toggle is on."""
    seen: tuple[float, float] | None
    """Minimum and maximum of the input since this was set to (inf, -inf); None if they are not tracked."""

    def __new__(cls, shape: _Shape) -> Shaper:
        """From a `pyanticip.controls.Shape`. Raises OptionError."""

    def __call__(self, value: float) -> float:
        """The shaped value, 0..1."""

    def reshape(self, shape: _Shape) -> None:
        """Replaces the shape from the next value on, in a desk without a jump; an open gate stays open."""

@final
class Desk:
    """Turns one performer's frames from model output into control values and events.

    Leads, fallback to the scalars, mapping outputs, gain, smoothing, shaping, fades on signal loss, freeze
    and stop, and the event rule. No change of mode or mapping makes a value jump.
    """

    gain: float
    """Factor on loudness, 0 to 4."""
    bypass: bool
    """Whether the scalars play instead of the model and of a mapping."""
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
        """One smoothing per parameter; `silence` are seconds to hold, fade and catch up; the rule is copied,
        the lead is shared. Raises ShapeError, OptionError for settings out of range or a neutral value
        outside 0..1."""

    def play(
        self,
        step: StepResult | None,
        scalars: npt.ArrayLike,
        mapped: Sequence[float] | None,
        activity: float,
        dt: float,
        guessed: bool,
    ) -> tuple[list[float], _Events]:
        """The output for a frame, `dt` seconds of source time after the last: the eight parameters and the
        events.

        With `step` None the scalars (7,) play. `mapped` are a mapping's values; with None its extra outputs
        hold. `activity` is 0 while the body stands still; nothing is learned from a `guessed` frame. Raises
        ShapeError; the state is then unchanged.
        """

    def bridge(self, step: StepResult | None, since_step_s: float, dt: float) -> tuple[list[float], _Events]:
        """The output without a new frame, from the step of the newest frame, `since_step_s` seconds ago."""

    @property
    def range_sample(self) -> tuple[list[float], float, float] | None:
        """What has yet to be learned from the last frame: the current parameters (8,), the activity, the
        seconds it counts for."""

    def set_range(self, range: PerformerRange | None) -> None:
        """Sets the range that model output is stretched to, which is shared; None for no stretching."""

    def silence(self, dt: float) -> list[float]:
        """The output without a frame for another `dt` seconds: held, then faded."""

    def set_mapping(
        self,
        places: Sequence[int | None],
        smoothing: Sequence[_Smoothing],
        neutral: Sequence[float],
        initial: Sequence[float],
    ) -> None:
        """Uses a mapping's outputs from the next frame on; `places` are their indices among the eight, or
        None.

        The others have one smoothing, neutral and starting value each per extra output. Raises ShapeError,
        and OptionError as for a new desk.
        """

    def set_shapers(self, main: Sequence[tuple[int, Shaper]], extra: Sequence[tuple[int, Shaper]]) -> None:
        """Replaces all shapers, each with its index among the eight or among the extra outputs."""

    def set_smoothing_settings(self, main: Sequence[_Smoothing], extra: Sequence[_Smoothing]) -> None:
        """Replaces the smoothing from the next frame on. Raises ShapeError, OptionError."""

    def set_mode(self, mode: str) -> None:
        """Changes to playing, frozen, stopped or panic, without a jump. Raises OptionError for another."""

    def fade_out(self, seconds: float) -> None:
        """Fades to neutral within `seconds`, whatever the mode. Raises OptionError for NaN."""

    def restart(self) -> None:
        """Starts a new stream: drops pending events and eases from the current values into the next frame."""

    def resume(self, last_sent: Sequence[float], extras: Sequence[float]) -> None:
        """Eases from `last_sent` and `extras`, the values last sent (recent outputs were not). Raises a
        MotionError for values outside 0..1."""

    @property
    def mode(self) -> str:
        """The mode: playing, frozen, stopped or panic."""

    @property
    def extras(self) -> list[float]:
        """The latest values of the extra mapping outputs, those that are not among the eight."""

    @property
    def by_model(self) -> bool:
        """Whether the model plays, rather than the scalars."""

    @property
    def silent_s(self) -> float:
        """Seconds since the source's last frame."""

FRAME_NS: int
"""Nanoseconds between two frames of the grid."""

@final
class FrameResult:
    """Result of a datagram that completed a frame."""

    @property
    def front_output(self) -> FrontOutput:
        """Output of the front end."""

    @property
    def skipped(self) -> int:
        """Number of earlier frames that were held (:meth:`Engine.hold`) and are not sent."""

    @property
    def step(self) -> StepResult | None:
        """Model output, mixed with the memory; None if the model did not step."""

    @property
    def failure(self) -> str | None:
        """Why the model failed, or None."""

    @property
    def remembered(
        self,
    ) -> tuple[list[float], tuple[int, float, float, float] | None, list[tuple[int, float, float]]] | None:
        """Output of the memory: trust (24 numbers; empty without a step), the place in the rehearsed takes,
        and the cues that are due (number, trust, seconds ahead); None without a memory."""

    @property
    def number(self) -> int:
        """Number of the grid slot in which it is sent."""

    @property
    def release_ns(self) -> int:
        """Time at which it is sent."""

    @property
    def output(self) -> tuple[list[float], _Events] | None:
        """The eight parameters and the events; None if its slot has passed."""

    @property
    def stages_ns(self) -> tuple[int, int]:
        """Nanoseconds spent on the model, and on everything after it."""

@final
class Engine:
    """One performer's pipeline from datagram to control values, and the slots of the 50 Hz grid in which they
    are sent: each number once and in order, whatever the source's numbers do.

    Its parts are shared: settings take effect from the next frame on. The GIL is released while they work,
    except for parts written in Python.
    """

    due_ns: int
    """Time from which the next frame counts as late."""

    def __new__(
        cls,
        front: LiveFront | Any,
        desk: Desk,
        warm: Desk,
        now_ns: int,
        buffer: float | Literal["auto"] | None = None,
    ) -> Engine:
        """`front` completes frames (a :class:`LiveFront`, or an object whose methods return a
        :class:`FrontOutput`), `warm` is the desk used by :meth:`prewarm`; `buffer` holds frames back, by 0 to
        100 ms or by what covers 98 % of the delays. Raises OptionError."""

    def set_model(self, backend: Any | None, core: MotionStream | None) -> None:
        """Sets the model: `core`, or if that is None `reset()` and `step(features)` of `backend`."""

    def set_memory(
        self, memory: Memory | None, follower: Follower | None = None, numbers: Sequence[int] = ...
    ) -> None:
        """Sets memory and follower; `numbers` are the memory's numbers of the follower's takes."""

    def set_mapping(
        self, mapping: Callable[[FrontOutput, StepResult | None, float, int], list[float] | None] | None
    ) -> None:
        """Sets the function that gives a mapping's values for every frame, from the front end's output, the
        step, the seconds since the last frame received, and the frame's number."""

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
        """Processes a datagram of `sender`; None if it completes no frame.

        The model steps if `stepping`, and starts a new stream if `stale` or if the front end says so. With a
        buffer, `fill` is called before the frame gets its slot, with the times (ns) of the slots that it
        would leap over, and may skip these. Raises ShapeError for a mapping's values that do not fit. Frames
        completed by :meth:`hold` are included.
        """

    def hold(self, datagram: bytes, t_arrival_ns: int, sender: str, now_ns: int) -> None:
        """Processes a datagram that is followed by newer ones at once.

        The frame it completes is sent with theirs, like one that fills a gap: :meth:`feed` steps and
        remembers all rows, and the output is that of the newest.
        """

    def learn(self) -> None:
        """Learns from the newest frame, after it has been sent."""

    def prewarm(
        self, out: FrontOutput, step: StepResult | None, mapped: Sequence[float] | None = None
    ) -> None:
        """Runs the code for the next datagram, except for the model, on scratch states."""

    @property
    def newest_slot(self) -> int:
        """Number of the last slot sent; -1 if none."""

    @property
    def missing_frames(self) -> int:
        """Number of slots sent since the last that a datagram completed."""

    @property
    def buffer_ms(self) -> float | None:
        """How long frames are currently held back, ms; None without a buffer."""

    def skip(self, silent: bool) -> None:
        """Advances by one slot without a datagram; `silent` if nothing is sent for it."""

    def imagine(self, now_ns: int) -> FrontOutput | None:
        """The front end's extrapolated frame after the newest, if it belongs into the newest slot."""
