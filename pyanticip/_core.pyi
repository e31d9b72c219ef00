"""The Rust core; hand-written and checked against the binary by stubtest."""

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
