"""Acclaim ASF files: the skeletons of AMC files."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pyanticip.errors import FormatError
from pyanticip.motion import text, units
from pyanticip.motion.rotations import from_euler
from pyanticip.motion.skeleton import MAX_JOINTS, Skeleton, longest_chain

_AXES = {"x": 0, "y": 1, "z": 2}
MAX_ASF_BYTES = 4 * 1024 * 1024
"""Maximum file size."""
CHANNELS = ("tx", "ty", "tz", "rx", "ry", "rz", "l")
"""Channels of a bone: translation, rotation and length."""

Line = tuple[int, list[str]]
"""A line's number and words."""


@dataclass(frozen=True)
class Bone:
    """A bone of an ASF file, or its root.

    Attributes:
        name: Name in the AMC file.
        channels: The bone's numbers in an AMC line, of tx ty tz rx ry rz l, in that order.
        axis: (4,) rotation C of the bone's axes, w x y z: a motion M is applied as C M inverse(C).
        vector: (3,) from the bone's joint to its end, in file units and world axes of the rest pose.
    """

    name: str
    channels: tuple[str, ...]
    axis: NDArray[np.float64]
    vector: NDArray[np.float64]


@dataclass(frozen=True)
class AcclaimSkeleton:
    """The content of an ASF file.

    Attributes:
        bones: Bones, parents first; bone 0 is the root.
        parents: Index of each bone's parent; -1 for the root.
        position: (3,) start position of the root, in file units.
        length: The file's ``length``: inches per unit, inverted.
        degrees: Whether angles are in degrees.
    """

    bones: tuple[Bone, ...]
    parents: tuple[int, ...]
    position: NDArray[np.float64]
    length: float
    degrees: bool

    def metres_per_unit(self, length_unit: str | float | None) -> float:
        """The scale to metres, by the file's ``length`` (0.45 at CMU) unless ``length_unit`` is given.

        If that gives no human size, the unit is guessed from the size, as for BVH files.
        """
        offsets, tips = self._offsets()
        reach = longest_chain(self.parents, offsets, tips)
        scale = units.UNITS["in"] / self.length
        if length_unit is None and 0.5 <= reach * scale <= 2.0:
            return scale
        return units.metres_per_unit(length_unit, reach)

    def skeleton(self, scale: float) -> Skeleton:
        """The skeleton in metres: each bone's joint is at its near end, offset by its parent's bone."""
        offsets, tips = self._offsets()
        names = [bone.name for bone in self.bones]
        return Skeleton.in_metres(names, self.parents, offsets, tips, scale)

    def _offsets(self) -> tuple[NDArray[np.float64], dict[int, tuple[float, float, float]]]:
        offsets = np.zeros((len(self.bones), 3))
        for index, parent in enumerate(self.parents[1:], start=1):
            offsets[index] = self.bones[parent].vector
        inner = set(self.parents)
        tips = {
            index: (float(bone.vector[0]), float(bone.vector[1]), float(bone.vector[2]))
            for index, bone in enumerate(self.bones)
            if index not in inner
        }
        return offsets, tips


@dataclass
class _Draft:
    """A bone while it is being read."""

    line: int
    name: str = ""
    direction: tuple[float, ...] = (0.0, 0.0, 0.0)
    length: float = 0.0
    angles: tuple[float, ...] = (0.0, 0.0, 0.0)
    order: str = "xyz"
    channels: tuple[str, ...] = ()
    seen: set[str] = field(default_factory=set)


def read_asf(path: Path, data: bytes | None = None) -> AcclaimSkeleton:
    """Read an ASF file (or its bytes); raises a one-line FormatError."""
    data = text.text_lines(path, text.read_bytes(path) if data is None else data)
    if len(data) > MAX_ASF_BYTES:
        raise text.fail(path, None, f"is larger than {MAX_ASF_BYTES >> 20} MB, the most a skeleton may have")
    sections = _sections(path, data)
    degrees, length = _units(path, sections.get("units", []))
    to_radians = np.pi / 180.0 if degrees else 1.0
    if "root" not in sections or "bonedata" not in sections or "hierarchy" not in sections:
        missing = next(name for name in ("root", "bonedata", "hierarchy") if name not in sections)
        raise text.fail(path, data.count(b"\n") + 1, f"has no :{missing} (truncated?)")
    root, position = _root(path, sections["root"], to_radians)
    drafts = _bone_data(path, sections["bonedata"])
    if len(drafts) >= MAX_JOINTS:
        raise text.fail(path, drafts[MAX_JOINTS - 1].line, f"more than {MAX_JOINTS} joints")
    bones = {"root": root}
    for draft in drafts:
        if draft.name.lower() in (name.lower() for name in bones):
            raise text.fail(path, draft.line, f"a second bone {text.quote(draft.name)}")
        bones[draft.name] = _bone(draft, to_radians)
    order, parents = _hierarchy(path, sections["hierarchy"], bones)
    return AcclaimSkeleton(tuple(bones[name] for name in order), tuple(parents), position, length, degrees)


def _sections(path: Path, data: bytes) -> dict[str, list[Line]]:
    """The lines of each ``:name`` section, without comments."""
    sections: dict[str, list[Line]] = {}
    current: list[Line] | None = None
    for number, content in enumerate(data.decode("utf-8", "replace").split("\n"), start=1):
        words = content.split("#", 1)[0].replace(",", " ").split()
        if not words:
            continue
        if words[0].startswith(":"):
            current = sections.setdefault(words[0][1:].lower(), [])
            if len(words) > 1:
                current.append((number, words[1:]))
        elif current is None:
            raise text.fail(path, number, f"expected a section like :root, got {text.quote(content.strip())}")
        else:
            current.append((number, words))
    if not sections:
        raise text.fail(path, 1, "is not an ASF file: it has no section")
    return sections


def _floats(path: Path, line: int, words: list[str], count: int) -> tuple[float, ...]:
    """The first ``count`` of ``words`` as finite numbers."""
    try:
        values = tuple(float(word) for word in words[:count])
    except ValueError:
        values = ()
    if len(values) != count or not np.isfinite(values).all() or any(abs(value) > 1e6 for value in values):
        raise text.fail(path, line, f"expected {count} numbers, got {text.quote(' '.join(words))}")
    return values


def _units(path: Path, lines: list[Line]) -> tuple[bool, float]:
    """Whether angles are in degrees, and the length factor."""
    degrees, length = True, 1.0
    for line, words in lines:
        key = words[0].lower()
        if key == "angle":
            degrees = not (len(words) > 1 and words[1].lower().startswith("rad"))
        elif key == "length":
            (length,) = _floats(path, line, words[1:], 1)
            if length <= 0.0:
                raise text.fail(path, line, f"length must be positive, got {length:g}")
    return degrees, length


def _order(path: Path, line: int, word: str) -> str:
    lower = word.lower()
    if sorted(lower) != ["x", "y", "z"]:
        raise text.fail(path, line, f"expected an axis order like XYZ, got {text.quote(word)}")
    return lower


def _root(path: Path, lines: list[Line], to_radians: float) -> tuple[Bone, NDArray[np.float64]]:
    """The root as a bone without length, and its start position."""
    channels: tuple[str, ...] = ("tx", "ty", "tz", "rx", "ry", "rz")
    order = "xyz"
    angles: tuple[float, ...] = (0.0, 0.0, 0.0)
    position: tuple[float, ...] = (0.0, 0.0, 0.0)
    for line, words in lines:
        key = words[0].lower()
        if key == "order":
            channels = _channels(path, line, words[1:])
        elif key == "axis":
            order = _order(path, line, words[1] if len(words) > 1 else "")
        elif key == "position":
            position = _floats(path, line, words[1:], 3)
        elif key == "orientation":
            angles = _floats(path, line, words[1:], 3)
    axis = _rotation(order, angles, to_radians)
    return Bone("root", channels, axis, np.zeros(3)), np.array(position)


def _channels(path: Path, line: int, words: list[str]) -> tuple[str, ...]:
    channels = tuple(word.lower() for word in words)
    if len(set(channels)) != len(channels) or not set(channels) <= set(CHANNELS):
        raise text.fail(
            path, line, f"expected some of {' '.join(CHANNELS)}, got {text.quote(' '.join(words))}"
        )
    return channels


def _bone_data(path: Path, lines: list[Line]) -> list[_Draft]:
    """The bones of the ``:bonedata`` section."""
    drafts: list[_Draft] = []
    current: _Draft | None = None
    for line, words in lines:
        key = words[0].lower()
        if key == "begin":
            if current is not None:
                raise text.fail(path, line, "a bone begins inside another")
            current = _Draft(line)
        elif current is None:
            raise text.fail(path, line, f"expected begin, got {text.quote(words[0])}")
        elif key == "end":
            if not current.name or not {"direction", "length"} <= current.seen:
                raise text.fail(path, current.line, "a bone needs a name, a direction and a length")
            drafts.append(current)
            current = None
        else:
            current.seen.add(key)
            if key == "name":
                current.name = " ".join(words[1:])
            elif key == "direction":
                current.direction = _floats(path, line, words[1:], 3)
            elif key == "length":
                (current.length,) = _floats(path, line, words[1:], 1)
            elif key == "axis":
                current.angles = _floats(path, line, words[1:], 3)
                current.order = _order(path, line, words[4] if len(words) > 4 else "xyz")
            elif key == "dof":
                current.channels = _channels(path, line, words[1:])
    if current is not None:
        raise text.fail(path, current.line, "a bone without end (truncated?)")
    return drafts


def _rotation(order: str, angles: tuple[float, ...], to_radians: float) -> NDArray[np.float64]:
    """The rotation about fixed axes in the written order: for XYZ about x, then y, then z."""
    # A product of rotations acts from the right, so the first rotation comes last.
    values = np.array([angles[_AXES[axis]] for axis in reversed(order)]) * to_radians
    return from_euler(values, [_AXES[axis] for axis in reversed(order)])


def _bone(draft: _Draft, to_radians: float) -> Bone:
    direction = np.array(draft.direction)
    size = float(np.linalg.norm(direction))
    vector = direction / size * draft.length if size > 1e-9 else np.zeros(3)
    return Bone(draft.name, draft.channels, _rotation(draft.order, draft.angles, to_radians), vector)


def _hierarchy(path: Path, lines: list[Line], bones: dict[str, Bone]) -> tuple[list[str], list[int]]:
    """Bone names and parent indices, depth first from the root."""
    children: dict[str, list[str]] = {}
    parent_of: dict[str, str] = {}
    spelt = {name.lower(): name for name in bones}
    for line, written in lines:
        if written[0].lower() in ("begin", "end"):
            continue
        words = [spelt.get(name.lower(), name) for name in written]
        for name in words:
            if name not in bones:
                raise text.fail(
                    path, line, f"the hierarchy names a bone {text.quote(name)} that is not there"
                )
        for name in words[1:]:
            if name in parent_of or name == "root":
                raise text.fail(path, line, f"bone {text.quote(name)} has two parents")
            parent_of[name] = words[0]
            children.setdefault(words[0], []).append(name)
    order: list[str] = []
    parents: list[int] = []
    for name, parent in _walk(children):
        parents.append(parent)
        order.append(name)
    if len(order) != len(bones):
        missing = next(name for name in bones if name not in order)
        last = lines[-1][0] if lines else None
        raise text.fail(path, last, f"bone {text.quote(missing)} is not connected to the root")
    return order, parents


def _walk(children: dict[str, list[str]]) -> Iterator[tuple[str, int]]:
    """Depth-first walk from the root: (name, index of its parent in this walk)."""
    stack = [("root", -1)]
    index = 0
    while stack:
        name, parent = stack.pop()
        yield name, parent
        stack.extend((child, index) for child in reversed(children.get(name, [])))
        index += 1


def find_asf(amc: Path) -> Path:
    """The ASF file of an AMC file: of the same name, else its subject's, else the only one in the folder.

    The subject's name is the longest of those that the name of the AMC file begins with, up to an underscore.
    """
    folder = amc.parent
    try:
        candidates = sorted(entry for entry in folder.iterdir() if entry.suffix.lower() == ".asf")
    except OSError:
        candidates = []
    parts = amc.stem.lower().split("_")
    for count in range(len(parts), 0, -1):
        for candidate in candidates:
            if candidate.stem.lower() == "_".join(parts[:count]):
                return candidate
    if len(candidates) == 1:
        return candidates[0]
    raise FormatError(
        f"{amc}: has no skeleton beside it: expected {amc.stem.split('_')[0]}.asf, or give"
        " --skeleton FILE.asf (skeleton= in Python)"
    )
