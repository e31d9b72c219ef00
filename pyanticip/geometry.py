"""The seven anticipation scalars of pose and vector trajectories.

Computed in the Rust core, in the order of :data:`pyanticip.SCALARS`; ``docs/scalars.md`` defines them.
Quaternions are Hamilton, w, x, y, z, local to the parent joint; times are frames, angles radians.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt

from pyanticip import _core
from pyanticip.errors import OptionError, ShapeError, one_line

__all__ = ["JointLimits", "ScalarStream", "VectorStream", "pose_scalars", "vector_scalars"]

Array = npt.NDArray[np.float64]
Uncertainty = Literal["directional", "vendi"]
Stability = Literal["speed", "max_jerk"]
Profile = Literal["causal", "paper"]

WINDOW_RANGE = "32 to 16384 frames"
"""Allowed window lengths, for error messages."""


@dataclass(frozen=True, eq=False)
class JointLimits:
    """What each joint can do; proximity to it replaces proximity to the edge of the window's own range.

    Every field has one row a joint; ``inf`` means no such limit.
    """

    swing: npt.ArrayLike
    """Largest swing away from the twist axis, radians, (J,)."""
    twist: npt.ArrayLike
    """Largest twist about the axis to either side, radians, (J,)."""
    speed: npt.ArrayLike
    """Largest speed, radians per frame, (J,)."""
    axes: npt.ArrayLike
    """Twist axis of each joint in its own frame (along the bone), any length, (J, 3)."""

    def rows(self, joints: int) -> list[list[float]]:
        """Axis x, y, z, swing, twist and speed of each joint.

        Raises:
            ShapeError: a field does not have one row a joint.
        """
        shapes = {"axes": (joints, 3), "swing": (joints,), "twist": (joints,), "speed": (joints,)}
        table = [
            _column(f"limits.{name}", getattr(self, name), shape).reshape(joints, -1)
            for name, shape in shapes.items()
        ]
        rows: list[list[float]] = np.concatenate(table, axis=1).tolist()
        return rows


def checked_numbers(name: str, values: npt.ArrayLike, kinds: str = "iuf") -> npt.NDArray[Any]:
    """``values`` as an array; a ShapeError unless its dtype's kind is one of ``kinds``."""
    if hasattr(values, "filled"):
        raise ShapeError(f"{name}: got a masked array: fill what is masked first")
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ShapeError(f"{name}: expected an array of numbers: {one_line(error)}") from None
    if array.dtype.kind not in kinds:
        raise ShapeError(f"{name}: expected an array of numbers, got one of {array.dtype}")
    return array


def _column(name: str, values: npt.ArrayLike, shape: tuple[int, ...]) -> Array:
    """``values`` as float64; a ShapeError unless they have this shape."""
    column = checked_numbers(name, values, "biuf")
    if column.shape != shape:
        raise ShapeError(f"{name}: expected shape {shape}, got {column.shape}")
    return column.astype(np.float64)


def _limit_rows(joints: int, limits: Any) -> list[list[float]] | None:
    if limits is None:
        return None
    if not isinstance(limits, JointLimits):
        raise OptionError(f"option limits: expected JointLimits, got {limits!r}")
    return limits.rows(joints)


def _joint_weights(
    joints: int, weights: npt.ArrayLike | None, mask: npt.ArrayLike | None
) -> list[float] | None:
    if weights is None and mask is None:
        return None
    w = np.ones(joints)
    for name, values in (("weights", weights), ("mask", mask)):
        if values is not None:
            w = w * _column(name, values, (joints,))
    invalid = np.flatnonzero(~(np.isfinite(w) & (w >= 0.0)))
    if invalid.size or not w.any():
        given = f"{w[invalid[0]]} of joint {invalid[0]}" if invalid.size else "only 0"
        raise OptionError(f"option weights: expected finite weights of at least 0, not all 0, got {given}")
    result: list[float] = w.tolist()
    return result


def checked_count(name: str, value: Any, expected: str = "at least 1, inside the window") -> int:
    """``value`` as an int; an OptionError unless it is a positive integer that fits the core's 64 bits."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 1 <= value < 1 << 63:
        raise OptionError(f"option {name}: expected an integer of {expected}, got {value!r}")
    return int(value)


def _number(name: str, value: Any) -> float:
    """``value`` as a float, or an OptionError."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise OptionError(f"option {name}: expected a number, got {value!r}") from None


def _weights(commitment: Any) -> tuple[float, ...]:
    """The three weights of the commitment, or an OptionError."""
    try:
        weights = tuple(commitment)
    except TypeError:
        raise OptionError(f"option commitment: expected three weights, got {commitment!r}") from None
    if len(weights) != 3:
        raise OptionError(f"option commitment: expected three weights, got {len(weights)}")
    return tuple(_number("commitment", weight) for weight in weights)


class _Options(dict[str, Any]):
    """Options of a stream by name, their types checked here and their ranges in the core."""

    def __init__(
        self,
        window: int | None,
        k: int,
        stride: int,
        horizon: int,
        theiler: int,
        eps_v: float,
        r0: float | None,
        m: int,
        commitment: Sequence[float],
        ema: float | None,
        uncertainty: str,
        stability: str,
    ) -> None:
        super().__init__(
            window=None if window is None else checked_count("window", window, WINDOW_RANGE),
            k=checked_count("k", k, "2 to 1024 neighbours"),
            stride=checked_count("stride", stride),
            horizon=checked_count("horizon", horizon),
            theiler=checked_count("theiler", theiler),
            eps_v=_number("eps_v", eps_v),
            r0=None if r0 is None else _number("r0", r0),
            m=checked_count("m", m),
            commitment=_weights(commitment),
            ema=None if ema is None else _number("ema", ema),
            uncertainty=str(uncertainty),
            stability=str(stability),
        )


class _Stream:
    """Base of both streams."""

    _core: _core.PoseStream | _core.VectorStream
    _options: _Options
    __slots__ = ("__weakref__", "_core", "_options", "_push")

    def push_many(self, sequence: npt.ArrayLike) -> Array:
        """Push frames one after the other, without the GIL; the same values as pushing each alone.

        Args:
            sequence: the frames, (T, J, 4) or (T, d).

        Returns:
            The scalars of each frame, (T, 7).

        Raises:
            ShapeError: another shape, a masked array, or no real numbers; nothing has been pushed then.
        """
        return self._core.push_many(sequence)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        # copy, deepcopy and pickle all call this; a shallow copy would share the core stream.
        name = type(self).__name__
        raise TypeError(f"a {name} cannot be copied or pickled: make another and push the same frames")

    def reset(self) -> None:
        """Make the next frame a first frame."""
        self._core.reset()

    @property
    def valid(self) -> bool:
        """Whether at most a tenth of the window's content was missing, and held from earlier frames."""
        return self._core.valid

    @property
    def missing(self) -> int:
        """Joint-frames (vectors: frames) held since the stream began."""
        return self._core.missing

    @property
    def frames(self) -> int:
        """Frames pushed since the stream began."""
        return self._core.frames

    @property
    def window(self) -> int | None:
        """Frames the scalars depend on; None: all of them."""
        value: int | None = self._options["window"]
        return value

    @property
    def k(self) -> int:
        """Number of nearest past states whose continuations are compared."""
        return int(self._options["k"])

    @property
    def stride(self) -> int:
        """Frames over which transition pressure, phase stiffness and stability are taken."""
        return int(self._options["stride"])

    @property
    def horizon(self) -> int:
        """Frames a continuation spans."""
        return int(self._options["horizon"])

    @property
    def theiler(self) -> int:
        """Most recent frames that are too close in time to count as a past state."""
        return int(self._options["theiler"])

    @property
    def options(self) -> dict[str, Any]:
        """All options, by name."""
        return dict(self._options)


class ScalarStream(_Stream):
    """The seven scalars of a stream of poses, frame by frame; causal, in constant memory.

    Args:
        joints: joints of a pose, 1 to 1024.
        window: frames the scalars depend on, 32 to 16384 (256 is 5.12 s at 50 Hz).
        k: number of nearest past states whose continuations are compared, 2 to 1024.
        stride: frames over which transition pressure, phase stiffness and stability are taken, three strides
            inside the window (6 is 0.12 s at 50 Hz).
        horizon: frames a continuation spans (10 is 0.2 s at 50 Hz).
        theiler: most recent frames that are too close in time to count as a past state.
        eps_v: speed below which nothing moves, radians per frame (weighted root mean square over joints).
        r0: radians added to the radius of the window: a still performer is not at the edge of a range.
        m: number of recent velocities that directional persistence compares.
        commitment: weights of certainty, constraint proximity and persistence in commitment; they sum to 1.
        ema: weight of the newest frame in a causal moving average of transition pressure, (0, 1]; None: none.
        uncertainty: ``"directional"`` (mean pairwise cosine) or ``"vendi"`` (Vendi score).
        stability: ``"speed"`` (jerk against speed) or ``"max_jerk"`` (the papers': against the largest jerk).
        weights: weight of each joint, (J,), at least 0, renormalised to sum 1; None: uniform.
        mask: joints present, (J,); the others get weight 0. Joints of weight 0 are ignored entirely.
        limits: joint limits that replace the range found in the data.
        profile: ``"causal"``; ``"paper"`` looks into the future and is refused here.

    Raises:
        OptionError: an option outside its range.
        ShapeError: weights, mask or limits that do not have one row a joint.

    >>> import numpy as np
    >>> stream = ScalarStream(joints=27)
    >>> [float(x) for x in stream.push(np.tile([1.0, 0.0, 0.0, 0.0], (27, 1)))]
    [0.0, 1.0, 0.0, 1.0, 0.5, 1.0, 1.0]
    """

    __slots__ = ("joints",)

    def __init__(
        self,
        joints: int = 27,
        *,
        window: int = 256,
        k: int = 8,
        stride: int = 6,
        horizon: int = 10,
        theiler: int = 12,
        eps_v: float = 1e-4,
        r0: float = 0.01,
        m: int = 5,
        commitment: Sequence[float] = (0.4, 0.3, 0.3),
        ema: float | None = None,
        uncertainty: Uncertainty = "directional",
        stability: Stability = "speed",
        weights: npt.ArrayLike | None = None,
        mask: npt.ArrayLike | None = None,
        limits: JointLimits | None = None,
        profile: Profile = "causal",
    ) -> None:
        _refuse_paper(profile)
        self.joints = checked_count("joints", joints, "1 to 1024")
        self._options = _Options(
            window, k, stride, horizon, theiler, eps_v, r0, m, commitment, ema, uncertainty, stability
        )
        rows = _limit_rows(self.joints, limits)
        core = _core.PoseStream(self.joints, self._options, _joint_weights(self.joints, weights, mask), rows)
        self._core = core
        self._push = core.push

    def push(self, quats: npt.ArrayLike) -> Array:
        """Scalars of the next pose.

        Args:
            quats: unit quaternions w, x, y, z, (J, 4), float32 or float64 (normalised here). One that is
                not finite or shorter than 1e-6 holds that joint's last rotation; :attr:`missing` counts them.

        Returns:
            The scalars in the order of :data:`pyanticip.SCALARS`, (7,).

        Raises:
            ShapeError: another shape, a masked array, or no real numbers; the stream is unchanged.
        """
        return self._push(quats)


class VectorStream(_Stream):
    """The seven scalars of a stream of vectors; options as in :class:`ScalarStream`.

    Args:
        dim: dimension of a vector, 1 to 65536.
        window: frames the scalars depend on, 32 to 16384; None: the whole prefix (memory and time grow).
        k: number of nearest past states whose continuations are compared, 2 to 1024.
        stride: frames over which transition pressure, phase stiffness and stability are taken.
        horizon: frames a continuation spans.
        theiler: most recent frames that are too close in time to count as a past state.
        eps_v: length per frame below which nothing moves.
        r0: added to the radius of the window; None: ``eps_v``.
        m: number of recent velocities that directional persistence compares.
        commitment: weights of certainty, proximity and persistence in commitment; they sum to 1.
        ema: weight of the newest frame in a causal moving average of transition pressure; None: none.
        uncertainty: ``"directional"`` or ``"vendi"``.
        stability: ``"speed"`` or ``"max_jerk"``.
        profile: ``"causal"``; ``"paper"`` looks into the future and is refused here.

    Raises:
        OptionError: an option outside its range.
    """

    __slots__ = ("dim",)

    def __init__(
        self,
        dim: int,
        *,
        window: int | None = 256,
        k: int = 8,
        stride: int = 1,
        horizon: int = 1,
        theiler: int = 1,
        eps_v: float = 1e-9,
        r0: float | None = None,
        m: int = 5,
        commitment: Sequence[float] = (0.4, 0.3, 0.3),
        ema: float | None = None,
        uncertainty: Uncertainty = "directional",
        stability: Stability = "speed",
        profile: Profile = "causal",
    ) -> None:
        _refuse_paper(profile)
        self.dim = checked_count("dim", dim, "1 to 65536")
        self._options = _Options(
            window, k, stride, horizon, theiler, eps_v, r0, m, commitment, ema, uncertainty, stability
        )
        core = _core.VectorStream(self.dim, self._options)
        self._core = core
        self._push = core.push

    def push(self, x: npt.ArrayLike) -> Array:
        """Scalars of the next vector.

        Args:
            x: the vector, (d,). One with a component that is not finite, or beyond 1e100, holds the last one;
                :attr:`missing` counts them.

        Returns:
            The scalars in the order of :data:`pyanticip.SCALARS`, (7,).

        Raises:
            ShapeError: another shape, a masked array, or no real numbers; the stream is unchanged.
        """
        return self._push(x)


def _refuse_paper(profile: str) -> None:
    if profile != "causal":
        what = "looks into the future: offline only" if profile == "paper" else "unknown"
        raise OptionError(f"option profile: a stream is always 'causal', got {profile!r} ({what})")


def _is_paper(profile: str) -> bool:
    if profile not in ("causal", "paper"):
        raise OptionError(f"option profile: expected 'causal' or 'paper', got {profile!r}")
    return profile == "paper"


def pose_scalars(
    quats: npt.ArrayLike,
    *,
    window: int = 256,
    k: int = 8,
    stride: int = 6,
    horizon: int = 10,
    theiler: int = 12,
    eps_v: float = 1e-4,
    r0: float = 0.01,
    m: int = 5,
    commitment: Sequence[float] = (0.4, 0.3, 0.3),
    ema: float | None = None,
    uncertainty: Uncertainty = "directional",
    stability: Stability = "speed",
    weights: npt.ArrayLike | None = None,
    mask: npt.ArrayLike | None = None,
    limits: JointLimits | None = None,
    profile: Profile = "causal",
) -> Array:
    """Scalars of whole pose sequences: bit for bit what :class:`ScalarStream` gives frame by frame.

    Args:
        quats: unit quaternions w, x, y, z, (..., T, J, 4); sequences run in parallel, without the GIL.
        window, k, stride, horizon, theiler, eps_v, r0, m, commitment, ema, uncertainty, stability, weights,
            mask, limits: as in :class:`ScalarStream`.
        profile: ``"causal"``, or ``"paper"``: the papers' whole-sequence normalisers, for plots only.
            It looks into the future; window and stability are ignored, and T is at most 32,767.

    Returns:
        The scalars of each frame, (..., T, 7).

    Raises:
        ShapeError: another shape, a masked array, or no real numbers.
        OptionError: an option outside its range.
    """
    options = _Options(
        window, k, stride, horizon, theiler, eps_v, r0, m, commitment, ema, uncertainty, stability
    )
    try:
        shape = np.shape(quats)
    except ValueError as error:
        uneven = isinstance(quats, (list, tuple))
        got = "uneven rows" if uneven else f"{type(quats).__name__}: {one_line(error)}"
        raise ShapeError(f"expected quaternions of shape (..., T, J, 4), got {got}") from None
    joints = shape[-2] if len(shape) > 1 else 0
    rows = _limit_rows(joints, limits)
    return _core.pose_scalars(quats, options, _is_paper(profile), _joint_weights(joints, weights, mask), rows)


def vector_scalars(
    x: npt.ArrayLike,
    *,
    window: int | None = 256,
    k: int = 8,
    stride: int = 1,
    horizon: int = 1,
    theiler: int = 1,
    eps_v: float = 1e-9,
    r0: float | None = None,
    m: int = 5,
    commitment: Sequence[float] = (0.4, 0.3, 0.3),
    ema: float | None = None,
    uncertainty: Uncertainty = "directional",
    stability: Stability = "speed",
    profile: Profile = "causal",
) -> Array:
    """Scalars of whole vector sequences: bit for bit what :class:`VectorStream` gives frame by frame.

    Args:
        x: the vectors, (..., T, d); sequences run in parallel, without the GIL.
        window, k, stride, horizon, theiler, eps_v, r0, m, commitment, ema, uncertainty, stability:
            as in :class:`VectorStream`.
        profile: ``"causal"`` or ``"paper"``, as in :func:`pose_scalars`.

    Returns:
        The scalars of each frame, (..., T, 7).

    Raises:
        ShapeError: another shape, a masked array, or no real numbers.
        OptionError: an option outside its range.
    """
    options = _Options(
        window, k, stride, horizon, theiler, eps_v, r0, m, commitment, ema, uncertainty, stability
    )
    return _core.vector_scalars(x, options, _is_paper(profile))
