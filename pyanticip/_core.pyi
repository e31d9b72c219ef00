"""The Rust core; hand-written and checked against the binary by stubtest."""

from collections.abc import Sequence
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

__version__: str

# --- the built-in voice ---

VOICE_CEILING: float
"""Largest magnitude of a sample the voice gives: -1 dBFS."""

class Voice:
    """The built-in voice: eight parameters (0..1, as ordered in `controls`) and two events in, stereo out.

    How the samples are cut into blocks does not change them. Values are clamped to 0..1; what is no number
    is ignored and counted. Every error is an `OptionError` or a `ShapeError`.
    """

    def __new__(cls, sample_rate: float = 48_000.0, *, seed: int = 0) -> Voice: ...
    def set(self, index: int, value: float) -> None:
        """Sets parameter `index` (0..7); it takes effect within 64 samples."""

    def params(self, values: npt.NDArray[np.float32]) -> None:
        """Sets all eight parameters, shape (8,)."""

    def event(self, index: int, strength: float, seconds: float = 0.0) -> None:
        """Strikes event 0 (onset) or 1 (phrase), strength 0..1, `seconds` (0..60) ahead of now."""

    def gain(self, value: float) -> None:
        """Moves the master gain to `value`, 0..1, within 30 ms."""

    def fade(self, value: float, seconds: float) -> None:
        """Moves the master gain to `value`, 0..1, in a straight line over `seconds` (0..60)."""

    def render(self, samples: int) -> npt.NDArray[np.float32]:
        """The next samples, shape (samples, 2), each within `VOICE_CEILING`; the GIL is released."""

    def reset(self) -> None:
        """Back to the state of a new voice."""

    @property
    def latency(self) -> int:
        """Samples by which the output lags: the limiter's look-ahead."""

    @property
    def sample_rate(self) -> float:
        """Samples a second."""

    @property
    def position(self) -> int:
        """Stereo samples rendered since the last reset."""

    @property
    def ignored(self) -> int:
        """Values refused since the last reset because they were no numbers."""

# --- the seven scalars ---

SCALARS: Final[tuple[str, ...]]

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
    weights: list[float] | None = None,
    limits: list[list[float]] | None = None,
) -> npt.NDArray[np.float64]: ...
def vector_scalars(x: npt.ArrayLike, options: dict[str, Any]) -> npt.NDArray[np.float64]: ...

# --- the canonical body, retargeting, resampling ---

CANONICAL_JOINTS: tuple[str, ...]
"""Names of the 22 canonical joints, in order."""
CANONICAL_PARENTS: tuple[int, ...]
"""Index of each canonical joint's parent, -1 for the hips."""
CANONICAL_OFFSETS: tuple[tuple[float, float, float], ...]
"""Rest offsets from the parent, metres: a T-pose facing +z, left is +x."""
CANONICAL_HIPS_HEIGHT: float
"""Height of the hips above the floor in the rest pose, metres."""
T_POSE_TOLERANCE: float
"""A pose whose `t_pose_deviation` is at most this (radians) is a T-pose."""
MAX_GAP: int
"""Grid frames that may be missing before a stream begins anew."""

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

    @property
    def mask(self) -> npt.NDArray[np.bool_]:
        """Which canonical joints have a source, (22,)."""

    @property
    def sources(self) -> list[list[str]]:
        """Per canonical joint the names of the source joints composed into it, top down."""

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
    """Names, parents (J,) and offsets (J, 3) in metres of "mocopi" (27), "vmc" (55) or "humanoid" (22)."""

def expand(
    target: str, quats: npt.ArrayLike, root: npt.ArrayLike
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Canonical (T, 22, 4) and hips (T, 3) to local rotations (T, J, 4) and root (T, 3) of `target`.

    Retargeting the result gives the canonical poses back.
    """

class Resampler:
    """Puts timed poses on a uniform grid that begins with the first one; slerp along the shortest arc.

    Gaps of up to `max_gap` grid frames are filled when the next pose comes, a longer one begins a new grid;
    `None` fills any gap. Batch `resample` is the same code.
    """

    def __new__(cls, joints: int, rate_out: float = 50.0, *, max_gap: int | None = 25) -> Resampler: ...
    def push(
        self, t_seconds: float, quats: npt.ArrayLike, root: npt.ArrayLike
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Takes a pose (J, 4), (3,); returns the grid frames it completes, (k, J, 4) and (k, 3)."""

    def reset(self) -> None:
        """Forgets the stream."""

    @property
    def starts(self) -> int:
        """How often a grid began."""

    @property
    def ignored(self) -> int:
        """Poses whose time was not after the one before."""

def resample(
    quats: npt.ArrayLike, root: npt.ArrayLike, rate_in: float, rate_out: float
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """A clip (T, J, 4), (T, 3) from `rate_in` to `rate_out` Hz; both begin with the same frame."""
