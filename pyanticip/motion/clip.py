"""A clip: joint rotations and the root's position over time, on a skeleton."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pyanticip.errors import OptionError, ShapeError, SkeletonError
from pyanticip.motion.rotations import are_units, multiply, rotate
from pyanticip.motion.skeleton import Skeleton, frozen
from pyanticip.motion.units import check_rate
from pyanticip.vocabulary import RATE

if TYPE_CHECKING:
    from pyanticip import _core

BODIES = ("humanoid",)


@dataclass(frozen=True, eq=False)
class Clip:
    """Motion of one performer; right-handed, y up, metres. Immutable; arrays are read-only.

    Attributes:
        quats: (T, J, 4) float32: unit quaternions w x y z, each local to its parent joint.
        root: (T, 3) float32, metres: position of the root joint.
        rate: Frames per second.
        skeleton: The J joints.
        name: Name of the clip, usually the file's without its suffix.
        warnings: One line for each thing that the reader repaired or decided.
        mask: (J,) bool: False for a joint that the source lacks (its rotation is then the identity).
        source: Path of the file that was read; empty for a clip from arrays.
        up: Up axis of that file: "y", "z", "x", "-y", "-z" or "-x". In the clip it is always y.
        unit: Metres per unit of length of that file.

    Raises:
        ShapeError: Arrays of inconsistent shape, without a frame, with quaternions that are not finite unit
            quaternions, or masked.
    """

    quats: NDArray[np.float32]
    root: NDArray[np.float32]
    rate: float
    skeleton: Skeleton
    name: str = ""
    warnings: tuple[str, ...] = ()
    mask: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    source: str = ""
    up: str = "y"
    unit: float = 1.0

    def __post_init__(self) -> None:
        joints = len(self.skeleton)
        quats, root = frozen("quats", self.quats, np.float32), frozen("root", self.root, np.float32)
        if quats.ndim != 3 or quats.shape[0] == 0 or quats.shape[1:] != (joints, 4):
            raise ShapeError(f"quats must have shape (T, {joints}, 4) with T >= 1, got {quats.shape}")
        if root.shape != (quats.shape[0], 3):
            raise ShapeError(f"root must have shape ({quats.shape[0]}, 3), got {root.shape}")
        if not np.isfinite(root).all():
            raise ShapeError("root must hold finite numbers")
        if not (units := are_units(quats)).all():
            frame, joint = np.argwhere(~units)[0]
            name = self.skeleton.names[joint]
            raise ShapeError(f"quats must be unit quaternions, frame {frame} joint {name!r} is not")
        mask = self.mask
        if np.size(mask) == 0:
            mask = np.ones(joints, np.bool_)
        mask = frozen("mask", mask, np.bool_)
        if mask.shape != (joints,):
            raise ShapeError(f"mask must have shape ({joints},), got {mask.shape}")
        object.__setattr__(self, "quats", quats)
        object.__setattr__(self, "root", root)
        object.__setattr__(self, "rate", check_rate(self.rate))
        object.__setattr__(self, "warnings", tuple(self.warnings))
        object.__setattr__(self, "mask", mask)

    def __reduce__(self) -> tuple[type["Clip"], tuple[object, ...]]:
        return Clip, tuple(getattr(self, item.name) for item in fields(self))

    def __len__(self) -> int:
        """The number of frames."""
        return int(self.quats.shape[0])

    def __repr__(self) -> str:
        return (
            f"Clip({self.name!r}, {len(self)} frames at {self.rate:g} Hz = {self.duration:.2f} s, "
            f"{len(self.skeleton)} joints)"
        )

    def __getitem__(self, frames: slice) -> "Clip":
        """The frames of a slice with step 1, e.g. ``clip[100:200]``."""
        if not isinstance(frames, slice) or frames.step not in (None, 1):
            # NumPy asks for clip[0] where a clip is given in place of its rotations, and passes this on.
            raise OptionError(
                "a clip is cut by a slice of frames with step 1, e.g. clip[100:200]; "
                "its rotations are the array clip.quats"
            )
        return replace(self, quats=self.quats[frames], root=self.root[frames])

    @property
    def frames(self) -> int:
        """The number of frames, T."""
        return len(self)

    @property
    def duration(self) -> float:
        """Seconds from the first frame to the end of the last: T / rate."""
        return len(self) / self.rate

    def seconds(self, start: float, stop: float) -> "Clip":
        """The part from ``start`` to ``stop`` seconds; a ``stop`` beyond the end is the end.

        Raises:
            OptionError: No frame is in that part.
        """
        if not 0.0 <= start < stop:
            raise OptionError(f"expected 0 <= start < stop, got {start} and {stop}")
        first, last = (round(min(time, self.duration) * self.rate) for time in (start, stop))
        if first == last:
            raise OptionError(f"no frame from {start} to {stop} s: the clip has {self.duration:.3g} s")
        return self[first:last]

    def global_rotations(self) -> NDArray[np.float32]:
        """World rotation of every joint, (T, J, 4) float32, w x y z; cached."""
        return self._global[0]

    def positions(self) -> NDArray[np.float32]:
        """World position of every joint, (T, J, 3) float32 metres; cached."""
        return self._global[1]

    @cached_property
    def _global(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        rotations, positions = forward_kinematics(self.skeleton, self.quats, self.root)
        return _read_only(rotations), _read_only(positions)

    def resample(self, rate: float) -> "Clip":
        """The clip on a uniform grid of ``rate`` Hz: slerp between frames, linear for the root.

        Uses the live resampler's code without its curves. The first frame is kept; the grid ends at or before
        the last.
        """
        rate = check_rate(rate)
        if rate == self.rate:
            return self
        from pyanticip import _core

        quats, root = _core.resample(self.quats, self.root, self.rate, rate)
        return replace(self, quats=quats, root=root, rate=rate)

    def retargeter(self) -> "_core.Retargeter":
        """The mapping onto the canonical body, checked to show the same movement.

        Raises:
            SkeletonError: As :meth:`retarget`.
        """
        from pyanticip.motion.agreement import checked_retargeter

        return checked_retargeter(self.skeleton, self.quats, str(self.source or self.name or ""))

    def retarget(self, body: Literal["humanoid"] = "humanoid") -> "Clip":
        """The same motion on the canonical body of 22 joints, with that body's proportions.

        Joints are found by name. The source's rest pose is ``skeleton.rest`` if that is set, else that of the
        offsets. Joints that the source lacks are the identity, and False in ``mask``.

        Raises:
            SkeletonError: Joints that cannot be recognised, or bones that point elsewhere on the canonical
                body (:func:`pyanticip.motion.agreement.checked_retargeter`).
        """
        if body not in BODIES:
            raise OptionError(f"body is one of {', '.join(BODIES)}, got {body!r}")
        from pyanticip.motion.canonical import canonical_skeleton

        skeleton = canonical_skeleton()
        has_canonical_names = self.skeleton.names == skeleton.names
        if has_canonical_names and self.skeleton.rests_as(skeleton):
            return self
        mapped = self.retargeter()
        quats, root = mapped.apply(self.quats, self.root)
        mask = np.asarray(mapped.mask, np.bool_)
        if has_canonical_names:  # with another rest pose: the clip knows which joints it lacks
            mask = mask & self.mask
        return replace(self, quats=quats, root=root, skeleton=skeleton, mask=mask)

    def features(self, *, window: int = 256) -> NDArray[np.float32]:
        """The model's input, (T, 279) float32, at 50 Hz (version 3 of the features).

        The clip is first retargeted to the canonical body and resampled to 50 Hz, if need be; T counts frames
        at 50 Hz. ``window`` is the scalars' window, 32 to 16384 frames.

        Raises:
            OptionError: A window outside that range.
            SkeletonError: As :meth:`retarget`.
        """
        from pyanticip import _core
        from pyanticip.geometry import WINDOW_RANGE, checked_count

        window = checked_count("window", window, WINDOW_RANGE)
        clip = self.retarget("humanoid").resample(RATE)
        return _core.motion_features(clip.quats, clip.root, clip.mask, window=window)

    def mirror(self) -> "Clip":
        """Left and right exchanged: the reflection in the plane x = 0, for canonical clips.

        A rotation (w, x, y, z) becomes (w, x, -y, -z), a position (x, y, z) becomes (-x, y, z), and
        each left joint takes the motion of the right one and vice versa. Mirroring twice restores the clip.

        Raises:
            SkeletonError: The clip is not on the canonical body; call ``retarget("humanoid")`` first.
        """
        from pyanticip.motion.canonical import canonical_skeleton, mirror_order

        if self.skeleton.names != canonical_skeleton().names:
            raise SkeletonError('only clips on the canonical body can be mirrored: call retarget("humanoid")')
        order = mirror_order()
        quats = self.quats[:, order] * np.array((1.0, 1.0, -1.0, -1.0), np.float32)
        root = self.root * np.array((-1.0, 1.0, 1.0), np.float32)
        return replace(self, quats=quats, root=root, mask=self.mask[order])


def forward_kinematics(
    skeleton: Skeleton, quats: ArrayLike, root: ArrayLike
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """World rotations (T, J, 4) and positions (T, J, 3) from local rotations and root positions (T, 3)."""
    local = np.asarray(quats, np.float64)
    root_positions = np.asarray(root, np.float64)
    rotations: list[NDArray[np.float64]] = []
    positions: list[NDArray[np.float64]] = []
    offsets = skeleton.offsets.astype(np.float64)
    for joint, parent in enumerate(skeleton.parents.tolist()):
        if parent < 0:
            rotations.append(local[:, joint])
            positions.append(root_positions)
            continue
        positions.append(positions[parent] + rotate(rotations[parent], offsets[joint]))
        rotations.append(multiply(rotations[parent], local[:, joint]))
    return _stacked(rotations), _stacked(positions)


def _stacked(parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float32]:
    return np.stack(parts, axis=1).astype(np.float32)


def _read_only(array: NDArray[np.float32]) -> NDArray[np.float32]:
    array.flags.writeable = False
    return array
