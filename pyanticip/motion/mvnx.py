"""Xsens MVNX files, the XML export of MVN Animate, MVN Analyze and Movella's tools."""

from pathlib import Path
from xml.parsers import expat

import numpy as np
from numpy.typing import NDArray

from pyanticip.errors import FormatError, OptionError, counted
from pyanticip.motion import text, units
from pyanticip.motion.clip import Clip
from pyanticip.motion.rotations import conjugate, multiply, normalized, rotate
from pyanticip.motion.skeleton import MAX_JOINTS, Skeleton

_END_POINTS = {"Head": "pTopOfHead"} | {
    f"{side}{segment}": f"p{side}{end}"
    for side in ("Left", "Right")
    for segment, end in (("Hand", "TopOfHand"), ("Toe", "Toe"))
}
"""For a segment without a child, the name of the point at its end."""

_TEXT_ELEMENTS = frozenset(("connector1", "connector2", "pos_b", "pos_s", "orientation", "position"))
"""Elements whose text is read. The others (velocities, sensors, ...) are most of a file."""


def read_mvnx(
    path: Path, data: bytes, *, rate: float | None = None, length_unit: str | float | None = None
) -> Clip:
    """The clip of an MVNX file's bytes, from the segments' orientations and positions. Metres, z up.

    Segments become joints of the same name. Calibration poses are left out. Bone offsets are the median over
    the frames, so that the file needs no other fields than these two.

    Raises:
        FormatError: One line with file, line and reason.
    """
    content = _Parser(path).parse(data)
    labels, parents, kept = content.tree()
    warnings = list(content.warnings)
    if left_out := len(content.labels) - len(kept):
        warnings.append(f"{counted(left_out, 'segment')} of no joint (props) left out")
    rotations = np.stack(content.orientations).reshape(len(content.orientations), -1, 4)[:, kept]
    positions = np.stack(content.positions).reshape(len(content.positions), -1, 3)[:, kept]
    inner_parents = parents[1:]
    offsets = np.zeros((len(labels), 3))
    offsets[1:] = np.median(
        rotate(conjugate(rotations[:, inner_parents]), positions[:, 1:] - positions[:, inner_parents]), axis=0
    )
    quats = rotations
    quats[:, 1:] = multiply(conjugate(rotations[:, inner_parents]), rotations[:, 1:])
    tips = {labels.index(label): tip for label, tip in content.tips.items() if label in labels}
    scale = 1.0 if length_unit is None else units.metres_per_unit(length_unit, 1.0)
    skeleton = Skeleton.in_metres(labels, parents, offsets, tips, scale)
    return Clip(
        quats.astype(np.float32),
        (positions[:, 0] * scale).astype(np.float32),
        content.rate if rate is None else rate,
        skeleton,
        path.stem,
        (*warnings, *units.size_warnings(skeleton.reach())),
        source=str(path),
        up="z",
        unit=scale,
    )


class _Parser:
    """A streaming parser of the parts that are needed; files may be too large for an XML tree."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rate = 0.0
        self.labels: list[str] = []
        self.tips: dict[str, tuple[float, float, float]] = {}
        self.orientations: list[NDArray[np.float64]] = []
        self.positions: list[NDArray[np.float64]] = []
        self.warnings: list[str] = []
        self._parent_of: dict[str, str] = {}
        self._subjects = 0
        self._point = self._upper_segment = ""
        self._is_body = self._is_motion = self._has_gap = False
        self._index, self._index_step = -1, 0
        self._frame: dict[str, NDArray[np.float64]] = {}
        self._text: list[str] | None = None
        self._xml = expat.ParserCreate()
        self._xml.buffer_text = True
        self._xml.StartElementHandler = self._start
        self._xml.EndElementHandler = self._end
        self._xml.CharacterDataHandler = self._characters
        self._xml.EntityDeclHandler = self._entity

    def parse(self, data: bytes) -> "_Parser":
        try:
            self._xml.Parse(data, True)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise text.fail(self.path, error.lineno, f"is not complete XML: {reason} (truncated?)") from None
        if not self.orientations:
            raise self._fail("has no frame of motion (truncated?)")
        return self

    def tree(self) -> tuple[tuple[str, ...], NDArray[np.int32], list[int]]:
        """Names and parents of the segments connected to the first, and their indices in the file."""
        kept = [0]
        for index, label in enumerate(self.labels[1:], 1):
            parent = self._parent_of.get(label)
            if parent is not None and any(self.labels[segment] == parent for segment in kept):
                kept.append(index)
        labels = tuple(self.labels[segment] for segment in kept)
        parents = [-1] + [labels.index(self._parent_of[label]) for label in labels[1:]]
        return labels, np.array(parents, np.int32), kept

    def _fail(self, reason: str) -> FormatError:
        return text.fail(self.path, self._xml.CurrentLineNumber, reason)

    def _entity(self, name: str, *_: object) -> None:
        raise self._fail(f"declares an entity, {text.quote(name)}: MVNX has none")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "subject":
            self._subjects += 1
            if self._subjects == 2:
                self.warnings.append("more than one performer: the first was read")
            elif self._subjects == 1:
                rate = attributes.get("frameRate", "")
                self.rate = text.parse_number(self.path, self._xml.CurrentLineNumber, rate.encode())
                try:
                    units.check_rate(self.rate)
                except OptionError as error:
                    raise self._fail(f"frameRate: {error}") from None
        if self._subjects != 1:
            return
        if tag == "segments":
            self._is_body = True
        elif tag == "segment" and self._is_body:
            label = attributes.get("label", "")
            if not label or label in self.labels or len(self.labels) == MAX_JOINTS:
                raise self._fail(f"expected a new segment with a label, got {text.quote(label)}")
            self.labels.append(label)
        elif tag == "point":
            self._point = attributes.get("label", "")
        elif tag == "frame":
            self._is_motion = attributes.get("type", "normal") == "normal"
            self._frame = {}
            if self._is_motion:
                self._check_index(attributes.get("index", ""))
        self._text = [] if tag in _TEXT_ELEMENTS else None

    def _characters(self, content: str) -> None:
        if self._text is not None:
            self._text.append(content)

    def _end(self, tag: str) -> None:
        content, self._text = "".join(self._text or ()), None
        if self._subjects != 1:
            return
        if tag == "segments":
            self._is_body = False  # those of the fingers follow, in elements of their own
        elif tag == "connector1":
            self._upper_segment = content.partition("/")[0].strip()
        elif tag == "connector2":
            self._parent_of.setdefault(content.partition("/")[0].strip(), self._upper_segment)
        elif tag in ("pos_b", "pos_s") and self._is_body:
            if self.labels and _END_POINTS.get(self.labels[-1]) == self._point:
                x, y, z = self._numbers("a point", content, 3)
                self.tips[self.labels[-1]] = (x, y, z)
        elif tag == "orientation" and self._is_motion:
            self._frame[tag] = self._unit(self._numbers(tag, content, 4 * len(self.labels)))
        elif tag == "position" and self._is_motion:
            self._frame[tag] = self._numbers(tag, content, 3 * len(self.labels))
        elif tag == "frame" and self._is_motion:
            for element in ("orientation", "position"):
                if element not in self._frame:
                    raise self._fail(f"a frame without {element}: export segment orientations and positions")
            self.orientations.append(self._frame["orientation"])
            self.positions.append(self._frame["position"])
            frames, joints = len(self.positions), len(self.labels)
            text.check_size(self.path, self._xml.CurrentLineNumber, frames, 7 * joints, joints)

    def _check_index(self, index: str) -> None:
        """Warn of the first frame that does not follow on the one before it as the second does on the first.

        In a file exported at a fraction of the captured rate, indices go on by more than one.
        """
        number = int(index) if index.isdecimal() and len(index) < 10 else -1
        if min(number, self._index) >= 0:
            step = number - self._index
            self._index_step = self._index_step or max(step, 1)
            if step != self._index_step and not self._has_gap:
                self._has_gap = True
                self.warnings.append(
                    f"frame indices do not go on by {self._index_step} after frame {self._index}; "
                    "every frame was kept"
                )
        self._index = number

    def _numbers(self, what: str, content: str, count: int) -> NDArray[np.float64]:
        try:
            values = text.parse_numbers(content.encode())
        except ValueError:
            raise self._fail(f"{what} holds something that is not a number") from None
        if len(values) != count or count == 0:
            raise self._fail(f"{what} has {count} numbers, got {len(values)}")
        if not (np.abs(values) <= text.MAX_NUMBER).all():
            raise self._fail(f"{what} holds a number that is not finite, or above {text.MAX_NUMBER:g}")
        return values

    def _unit(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        quats = values.reshape(-1, 4)
        if not (np.abs(np.linalg.norm(quats, axis=1) - 1.0) < 0.05).all():
            raise self._fail("orientation holds something that is not a unit quaternion")
        return normalized(quats).ravel()
