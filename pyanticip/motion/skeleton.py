"""A skeleton: a tree of joints with their offsets and a rest pose."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pyanticip.errors import ShapeError, SkeletonError
from pyanticip.geometry import checked_numbers

S = TypeVar("S", bound=np.generic)

MAX_JOINTS = 1024
"""Maximum number of joints; a file with more is taken to be damaged."""


def frozen(name: str, values: ArrayLike, dtype: type[S]) -> NDArray[S]:
    """A read-only, contiguous array of ``dtype`` that shares memory only with read-only arrays.

    Raises a ShapeError for a masked array, and for values that are not real numbers.
    """
    checked = checked_numbers(name, values, "biuf" if dtype is np.bool_ else "iuf")
    array = np.ascontiguousarray(checked, dtype)
    if array.dtype.kind == "i" and not np.array_equal(array, checked):
        raise ShapeError(f"{name}: expected whole numbers of {8 * array.itemsize} bits")
    base = array.base  # for a tensor or memory map, another object than `values`
    if (array is values or base is not None) and (
        array.flags.writeable or (isinstance(base, np.ndarray) and base.flags.writeable)
    ):
        array = array.copy()
    array.flags.writeable = False
    return array


@dataclass(frozen=True, eq=False)
class Skeleton:
    """Joints in a tree; right-handed, y up, metres. Arrays are read-only.

    Attributes:
        names: J distinct joint names, as spelt in the file.
        parents: (J,) int32: index of each joint's parent, always an earlier joint; -1 for the root, joint 0.
        offsets: (J, 3) float32, metres: position of each joint in its parent's frame. The root's is unused by
            :class:`~pyanticip.motion.clip.Clip`, which has a ``root`` track.
        rest: (J, 4) float32, w x y z: local rotations of the rest pose. Identity unless a rest pose was found
            in the motion.
        tips: Ends of the bones without a further joint: joint index -> (x, y, z) metres in its frame.
    """

    names: tuple[str, ...]
    parents: NDArray[np.int32]
    offsets: NDArray[np.float32]
    rest: NDArray[np.float32] = field(default_factory=lambda: np.empty((0, 4), np.float32))
    tips: Mapping[int, tuple[float, float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = tuple(str(name) for name in self.names)
        joints = len(names)
        if not 1 <= joints <= MAX_JOINTS:
            raise SkeletonError(f"a skeleton has 1 to {MAX_JOINTS} joints, got {joints}")
        if len(set(names)) != joints:
            duplicate = next(name for index, name in enumerate(names) if name in names[:index])
            raise SkeletonError(f"joint names must differ, {duplicate!r} appears twice")
        parents = frozen("parents", self.parents, np.int32)
        offsets = frozen("offsets", self.offsets, np.float32)
        rest = self.rest
        if np.size(rest) == 0:
            rest = np.tile(np.array((1.0, 0.0, 0.0, 0.0), np.float32), (joints, 1))
        rest = frozen("rest", rest, np.float32)
        for field_name, array, shape in (
            ("parents", parents, (joints,)),
            ("offsets", offsets, (joints, 3)),
            ("rest", rest, (joints, 4)),
        ):
            if array.shape != shape:
                raise SkeletonError(f"{field_name} of {joints} joints have shape {shape}, got {array.shape}")
            if not np.isfinite(array).all():
                raise SkeletonError(f"{field_name} must be finite numbers")
        if parents[0] != -1 or ((parents[1:] < 0) | (parents[1:] >= np.arange(1, joints))).any():
            raise SkeletonError("the first joint is the root (parent -1), every other parent comes earlier")
        lengths = np.linalg.norm(rest.astype(np.float64), axis=1)
        if (np.abs(lengths - 1.0) > 1e-3).any():
            raise SkeletonError("rest rotations must be unit quaternions")
        tips = {int(j): (float(t[0]), float(t[1]), float(t[2])) for j, t in self.tips.items()}
        if any(not 0 <= j < joints or not np.isfinite(t).all() for j, t in tips.items()):
            raise SkeletonError("tips name a joint that is not there, or are not finite")
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "parents", parents)
        object.__setattr__(self, "offsets", offsets)
        object.__setattr__(self, "rest", rest)
        object.__setattr__(self, "tips", MappingProxyType(tips))

    def __len__(self) -> int:
        """The number of joints."""
        return len(self.names)

    def __reduce__(self) -> tuple[type["Skeleton"], tuple[object, ...]]:
        return Skeleton, (self.names, self.parents, self.offsets, self.rest, dict(self.tips))

    def index(self, name: str) -> int:
        """The index of the joint ``name``; raises a SkeletonError if there is none."""
        try:
            return self.names.index(name)
        except ValueError:
            raise SkeletonError(f"no joint {name!r}; there are {', '.join(self.names)}") from None

    def reach(self) -> float:
        """Length in metres of the longest chain of bones from the root to a tip, independent of the pose.

        1.05 to 1.5 m for an adult (hips to fingertips). The root's own offset is excluded.
        """
        return longest_chain(self.parents, self.offsets, self.tips)

    def rests_as(self, other: "Skeleton") -> bool:
        """Whether both have the same tree, bones (to a millimetre) and rest rotations.

        Names and the root's offset are not compared.
        """
        return (
            np.array_equal(self.parents, other.parents)
            and np.allclose(self.offsets[1:], other.offsets[1:], atol=1e-3)
            and np.allclose(self.rest, other.rest, atol=1e-6)
        )

    @classmethod
    def in_metres(
        cls,
        names: Sequence[str],
        parents: ArrayLike,
        offsets: NDArray[np.float64],
        tips: Mapping[int, tuple[float, float, float]],
        scale: float,
    ) -> "Skeleton":
        """The skeleton whose ``offsets`` and ``tips`` have units of ``scale`` metres."""
        scaled = {index: (x * scale, y * scale, z * scale) for index, (x, y, z) in tips.items()}
        return cls(
            tuple(names), np.asarray(parents, np.int32), (offsets * scale).astype(np.float32), tips=scaled
        )

    def with_rest(self, rest: ArrayLike) -> "Skeleton":
        """The same skeleton with other rest rotations, (J, 4)."""
        return Skeleton(self.names, self.parents, self.offsets, np.asarray(rest, np.float32), self.tips)


def longest_chain(
    parents: Sequence[int] | NDArray[np.int32],
    offsets: ArrayLike,
    tips: Mapping[int, Sequence[float]],
) -> float:
    """Length of the longest chain of bones from joint 0 to any tip, in the unit of ``offsets``."""
    lengths = np.linalg.norm(np.asarray(offsets, np.float64), axis=1)
    chain = [0.0] * len(lengths)
    for joint in range(1, len(lengths)):
        chain[joint] = chain[int(parents[joint])] + float(lengths[joint])
    ends = [chain[joint] + float(np.linalg.norm(tip)) for joint, tip in tips.items()]
    return max(chain + ends)
