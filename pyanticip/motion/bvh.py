"""Reading and writing of Biovision BVH files."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pyanticip.errors import FormatError
from pyanticip.motion import body, text, units
from pyanticip.motion.atomic import write_atomic
from pyanticip.motion.clip import Clip
from pyanticip.motion.rotations import from_euler, multiply, rotate, to_euler_zyx
from pyanticip.motion.skeleton import MAX_JOINTS, Skeleton

_MOTION = re.compile(rb"(?:^|(?<=\}))[ \t]*MOTION[ \t]*$", re.MULTILINE | re.IGNORECASE)
_PARTS = re.compile(r"[{}]|[^{}]+")
_KEYWORDS = ("ROOT", "JOINT", "END", "ENDSITE", "END_SITE", "OFFSET", "CHANNELS")
_COMMENT = re.compile(rb"^[ \t]*#[^\n]*", re.MULTILINE)
_AXES = {"x": 0, "y": 1, "z": 2}
_UNSAFE = re.compile(r"[\s{}]+")
_CENTIMETRES = 100.0
_MIN_STRETCH = 0.05
"""Movement of a joint's positions, relative to the reach, from which its bone counts as stretching."""
_BLOCK_FRAMES = 4096
"""Frames converted to quaternions at once, so that working memory does not grow with the file."""
MAX_CHANNELS = 6
"""Maximum number of channels of a joint."""
MAX_HEADER_BYTES = 4 * 1024 * 1024
"""Maximum size of the hierarchy; 1024 joints, indented 1000 deep, need less."""


@dataclass
class _Joint:
    """A joint while it is being read."""

    name: str
    parent: int
    line: int
    offset: tuple[float, float, float] | None = None
    positions: list[tuple[int, int]] = field(default_factory=list)  # (column, axis)
    rotations: list[tuple[int, int]] = field(default_factory=list)  # (column, axis), in file order
    channels_line: int | None = None
    tip: tuple[float, float, float] | None = None


def read_bvh(
    path: Path,
    data: bytes,
    *,
    rate: float | None = None,
    length_unit: str | float | None = None,
) -> Clip:
    """The clip of a BVH file's bytes.

    Rotation orders may differ from joint to joint. The root track comes from the position channels of the
    root, or of the first moving joint below a fixed reference joint; those of others only set bone lengths.

    Raises:
        FormatError: One line with file, line and reason.
    """
    data = text.text_lines(path, data)
    if b"#" in data:
        data = _COMMENT.sub(b"", data)
    motion = _MOTION.search(data, 0, MAX_HEADER_BYTES)
    if motion is None and len(data) > MAX_HEADER_BYTES:
        raise text.fail(path, None, f"has no MOTION in its first {MAX_HEADER_BYTES >> 20} MB")
    joints, columns = _read_hierarchy(path, data[: motion.start()] if motion else data)
    if motion is None:
        raise text.fail(path, data.count(b"\n") + 1, "ends without a MOTION part (truncated?)")
    declared, frame_time, start = _read_timing(path, data, motion.end())
    count_line, time_line = declared[0], frame_time[0]
    is_certain = True
    if rate is None:
        try:
            rate, is_certain = units.rate_from_frame_time(frame_time[1])
        except FormatError as error:
            reason = f"{error}{text.comma_hint(frame_time[1])}; correct it, or give {units.RATE_HINT}"
            raise text.fail(path, time_line, reason) from None
    else:
        rate = units.check_rate(rate)
    warnings: list[str] = []
    advice = f"if that is wrong, correct Frame Time: in the file or give {units.RATE_HINT}"
    if rate < units.MIN_PLAYABLE_RATE:
        warnings.append(f"a frame every {1.0 / rate:.3g} s (is it in milliseconds?): {advice}")
    elif not is_certain:
        warnings.append(f"a frame time of {frame_time[1]} s may mean other rates than {rate:g} Hz: {advice}")
    rows = text.number_rows(path, data, start, time_line + 1, columns)
    _check_count(path, count_line, declared[1], len(rows), warnings)
    text.check_size(path, None, len(rows), columns, len(joints))

    quats, root, skeleton, unit = _convert(path, joints, rows, length_unit, warnings)
    del rows
    warnings += units.path_warnings(root, rate, "is it in the unit of the bones, is the frame time right?")
    quats.flags.writeable = False  # so that the clip does not copy them
    return Clip(
        quats, root, rate, skeleton, name=path.stem, warnings=tuple(warnings), source=str(path), unit=unit
    )


def _read_timing(path: Path, data: bytes, start: int) -> tuple[tuple[int, str], tuple[int, str], int]:
    """(line, value) of ``Frames:`` and of ``Frame Time:`` after MOTION, and the offset of the numbers."""
    line = data.count(b"\n", 0, start) + 1
    values: list[tuple[int, str]] = []
    for key in ("frames", "frametime"):
        content = b""
        while not content.strip():
            end = data.find(b"\n", start)
            end = len(data) if end < 0 else end
            content = data[start : min(end, start + 1000)]
            if start >= len(data):
                break
            start, line = end + 1, line + 1
        name, _, value = content.decode("utf-8", "replace").partition(":")
        if "".join(name.split()).lower() != key:
            expected = "Frames: N" if key == "frames" else "Frame Time: SECONDS"
            raise text.fail(path, line - 1, f"expected {expected!r} after MOTION, got {text.quote(content)}")
        values.append((line - 1, value.strip()))
    return values[0], values[1], start


def _check_count(path: Path, line: int, written: str, found: int, warnings: list[str]) -> None:
    """Check the declared number of frames against ``found``: one missing, or more, is only warned of."""
    try:
        declared = int(re.sub(r"\.0+$", "", written))  # some programs write every number with decimals
    except ValueError:
        raise text.fail(path, line, f"expected a number of frames, got {text.quote(written)}") from None
    if found == 0:
        raise text.fail(path, line, f"has no frame, {declared} declared (truncated?)")
    if found < declared - 1:
        raise text.fail(path, line, f"declares {declared} frames, only {found} are there (truncated?)")
    if found != declared:
        warnings.append(f"declares {declared} frames, {found} are there and were kept")


def _header_parts(path: Path, header: bytes) -> Iterator[tuple[int, list[str]]]:
    """(line, words) of each statement and each brace of the header, however many stand on a line.

    A joint's name ends with its line or at a brace, so a keyword in it begins no statement.
    """
    for line, content in enumerate(text.decoded(header).split("\n"), start=1):
        for part in _PARTS.finditer(content):
            if len(part[0]) > 10_000:
                raise text.fail(path, line, "more than 10000 characters without a brace in the hierarchy")
            words, start = part[0].split(), 0
            for end in range(1, len(words) + 1):
                has_name = words[start].upper() in ("ROOT", "JOINT")
                if end == len(words) or (not has_name and words[end].upper() in _KEYWORDS):
                    yield line, words[start:end]
                    start = end


def _read_hierarchy(path: Path, header: bytes) -> tuple[list[_Joint], int]:
    """The joints, parents first, and the number of columns of the motion."""
    joints: list[_Joint] = []
    open_joints: list[int] = []  # -1 for an End Site
    columns = 0
    pending: int | None = None  # the joint whose opening brace is expected
    line = 1
    parts = _header_parts(path, header)
    start = next(parts, None)
    if start is None or start[1][0].upper() != "HIERARCHY":
        raise text.fail(path, start[0] if start else 1, "expected HIERARCHY at the start of a BVH file")
    for line, words in parts:
        key = words[0].upper()
        if pending is not None and key != "{":
            raise text.fail(path, line, f"expected '{{', got {text.quote(' '.join(words))}")
        if key in ("ROOT", "JOINT"):
            if key == "ROOT" and joints:
                raise text.fail(path, line, "a second ROOT: expected one performer a file")
            if key == "JOINT" and (not open_joints or open_joints[-1] < 0):
                raise text.fail(path, line, "a JOINT outside any other joint")
            if len(joints) >= MAX_JOINTS:
                raise text.fail(path, line, f"more than {MAX_JOINTS} joints")
            pending = len(joints)
            parent = open_joints[-1] if open_joints else -1
            joints.append(_Joint(" ".join(words[1:]) or f"joint_{len(joints)}", parent, line))
        elif key in ("END", "ENDSITE", "END_SITE"):
            if not open_joints or open_joints[-1] < 0:
                raise text.fail(path, line, "an End Site outside any joint")
            pending = -1
        elif key == "{":
            if pending is None:
                raise text.fail(path, line, "a '{' that belongs to no joint")
            open_joints.append(pending)
            pending = None
        elif key == "}":
            if not open_joints:
                raise text.fail(path, line, "a '}' too many")
            closed = open_joints.pop()
            if closed >= 0 and joints[closed].offset is None:
                raise text.fail(path, line, f"joint {text.quote(joints[closed].name)} has no OFFSET")
        elif key == "OFFSET":
            offset = _offset(path, line, words)
            if not open_joints:
                raise text.fail(path, line, "an OFFSET outside any joint")
            if open_joints[-1] >= 0:
                joints[open_joints[-1]].offset = offset
            else:
                joints[open_joints[-2]].tip = offset
        elif key == "CHANNELS" and open_joints and open_joints[-1] < 0 and words[1:] == ["0"]:
            pass  # some exporters write this in an End Site
        elif key == "CHANNELS":
            if not open_joints or open_joints[-1] < 0:
                raise text.fail(path, line, "CHANNELS outside any joint")
            columns = _channels(path, line, words, joints[open_joints[-1]], columns)
        else:
            raise text.fail(path, line, f"expected a joint, OFFSET or CHANNELS, got {text.quote(words[0])}")
    if not joints:
        raise text.fail(path, line, "has no ROOT")
    if open_joints or pending is not None:
        raise text.fail(path, line, "the hierarchy ends inside a joint (truncated?)")
    if columns == 0:
        raise text.fail(path, line, "no joint has CHANNELS")
    return joints, columns


def _offset(path: Path, line: int, words: list[str]) -> tuple[float, float, float]:
    try:
        x, y, z = (float(word) for word in words[1:])
    except ValueError:
        given = " ".join(words)
        raise text.fail(
            path, line, f"expected OFFSET x y z, got {text.quote(given)}{text.comma_hint(given)}"
        ) from None
    if not np.isfinite((x, y, z)).all() or max(abs(x), abs(y), abs(z)) > 1e6:
        raise text.fail(path, line, f"an OFFSET out of range: {text.quote(' '.join(words))}")
    return x, y, z


def _channels(path: Path, line: int, words: list[str], joint: _Joint, columns: int) -> int:
    """Read the channels of ``joint``, the first in column ``columns``; returns the next free column."""
    names = words[2:]
    if joint.channels_line is not None:
        raise text.fail(path, line, f"second CHANNELS of joint {text.quote(joint.name)}")
    joint.channels_line = line
    try:
        count = int(words[1])
    except (IndexError, ValueError):
        raise text.fail(path, line, f"expected CHANNELS n names, got {text.quote(' '.join(words))}") from None
    if not 0 <= count <= MAX_CHANNELS:
        expected = f"at most {MAX_CHANNELS} channels, positions and rotations (no scale)"
        raise text.fail(path, line, f"expected {expected}, got {count}")
    if count != len(names):
        raise text.fail(path, line, f"expected {count} channel names, got {len(names)}")
    for name in names:
        lower = name.lower()
        axis, kind = _AXES.get(lower[:1]), lower[1:]
        if axis is None or kind not in ("position", "rotation"):
            raise text.fail(
                path, line, f"expected a channel like Xposition or Zrotation, got {text.quote(name)}"
            )
        channels, lookback = (joint.positions, 3) if kind == "position" else (joint.rotations, 1)
        # Rotations may repeat an axis (ZXZ), but not twice in a row; positions may not at all.
        if axis in (previous for _, previous in channels[-lookback:]):
            raise text.fail(path, line, f"channel {text.quote(name)} appears twice")
        channels.append((columns, axis))
        columns += 1
    return columns


def _convert(
    path: Path,
    joints: list[_Joint],
    rows: NDArray[np.float64],
    length_unit: str | float | None,
    warnings: list[str],
) -> tuple[NDArray[np.float32], NDArray[np.float32], Skeleton, float]:
    """Local quaternions, root positions in metres, the skeleton, and metres per unit."""
    offsets = np.array([joint.offset for joint in joints], np.float64)
    quats = _quaternions(joints, rows)
    for index in range(1, len(joints)):
        if joints[index].positions:
            _set_bone_length(joints[index], rows, offsets, index)
    parents = [joint.parent for joint in joints]
    tips = {index: joint.tip for index, joint in enumerate(joints) if joint.tip is not None}
    names = _unique_names(joints, warnings)

    # Joints above the body are folded into its first joint; their other branches are no part of the body.
    path_down = _path_to_body(joints, rows, names, parents, offsets)
    has_root_track = any(joints[index].positions for index in path_down)
    root = _positions(joints[0], rows, offsets[0])
    for above, below in pairwise(path_down):
        root = root + rotate(quats[:, above], _local_positions(joints[below], rows, offsets[below]))
        quats[:, below] = multiply(quats[:, above], quats[:, below])
        warnings.append(f"the reference joint {names[above]!r} was folded into {names[below]!r}")
    top, in_body = joints[path_down[-1]], body.descendants(parents, path_down[-1])
    hips = body.hips_below_arms(names, parents, offsets)
    if hips in in_body:
        root, in_body = body.hang_from(hips, path_down[-1], parents, offsets, tips, quats, root)
        warnings.append(f"hangs from {names[path_down[-1]]!r}: it was hung from {names[hips]!r}")
    dropped = [name for index, name in enumerate(names) if index not in in_body and index not in path_down]
    if dropped:
        warnings.append(f"not of the body and left out: {text.list_names(dropped)}")
    if in_body != list(range(len(joints))):
        new = {index: number for number, index in enumerate(in_body)}
        joints, names = [joints[index] for index in in_body], [names[index] for index in in_body]
        quats, offsets = quats[:, in_body], offsets[in_body]
        parents = [-1] + [new[parents[index]] for index in in_body[1:]]
        tips = {new[index]: tip for index, tip in tips.items() if index in new}
    # Without rotations the body would stand still, and still pass the check of its bones.
    inner = joints[1:]
    if any(joint.positions for joint in inner) and not any(joint.rotations for joint in inner):
        raise text.fail(path, None, "has positions of joints and no rotations: export rotations")
    angles = [column for joint in joints for column, _ in joint.rotations]
    warnings += units.angle_warnings(rows, angles, "BVH has degrees")

    reach = body.reach(names, parents, offsets, tips)
    scale = units.metres_per_unit(length_unit, reach)
    warnings += units.size_warnings(reach * scale)
    stretched = [
        name
        for name, joint in zip(names[1:], joints[1:], strict=True)
        if joint is not top and _range(joint, rows, outliers=2.0) > _MIN_STRETCH * reach
    ]
    if stretched:
        moved = text.list_names(stretched)
        warnings.append(f"bones do not stretch here: the positions of {moved} move, their median is used")
    if not has_root_track:
        warnings.append("has no positions of the body: it stays where it is")
    skeleton = Skeleton.in_metres(names, parents, offsets, tips, scale)
    return quats, (root * scale).astype(np.float32), skeleton, scale


def _quaternions(joints: list[_Joint], rows: NDArray[np.float64]) -> NDArray[np.float32]:
    """All Euler angles of ``rows`` as quaternions (T, J, 4), grouped by rotation order."""
    quats = np.empty((len(rows), len(joints), 4), np.float32)
    orders: dict[tuple[int, ...], list[int]] = {}
    for index, joint in enumerate(joints):
        orders.setdefault(tuple(axis for _, axis in joint.rotations), []).append(index)
    for axes, members in orders.items():
        columns = [[column for column, _ in joints[index].rotations] for index in members]
        column_table = np.array(columns, np.intp).reshape(len(members), len(axes))
        for start in range(0, len(rows), _BLOCK_FRAMES):
            block = slice(start, start + _BLOCK_FRAMES)
            # In double precision, as unwrapped angles may be many turns large.
            quats[block, members] = from_euler(np.radians(rows[block, column_table]), axes)
    return quats


def _positions(joint: _Joint, rows: NDArray[np.float64], offset: NDArray[np.float64]) -> NDArray[np.float64]:
    """(T, 3) in file units: the position channels, or the offset on axes without one."""
    positions = np.tile(np.asarray(offset, np.float64), (len(rows), 1))
    for column, axis in joint.positions:
        positions[:, axis] = rows[:, column]
    return positions


def _set_bone_length(
    joint: _Joint, rows: NDArray[np.float64], offsets: NDArray[np.float64], index: int
) -> None:
    """Replace an inner joint's offset by its position channels, unless these are relative to the offset."""
    median = np.median(_positions(joint, rows, offsets[index]), axis=0)
    if np.linalg.norm(median) > 0.1 * np.linalg.norm(offsets[index]):
        offsets[index] = median


def _local_positions(
    joint: _Joint, rows: NDArray[np.float64], offset: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Positions of an inner joint in its parent's frame: (T, 3), or (3,) if constant."""
    return _positions(joint, rows, np.asarray(joint.offset)) if _range(joint, rows) else offset


def _range(joint: _Joint, rows: NDArray[np.float64], outliers: float = 0.0) -> float:
    """The largest range of a joint's position channels, in file units; 0 without any.

    ``outliers`` is the percentage of frames to ignore at either end.
    """
    limits = (outliers, 100.0 - outliers)
    ends = [np.percentile(rows[:, column], limits) for column, _ in joint.positions]
    return max((float(high - low) for low, high in ends), default=0.0)


def _path_to_body(
    joints: list[_Joint],
    rows: NDArray[np.float64],
    names: list[str],
    parents: list[int],
    offsets: NDArray[np.float64],
) -> list[int]:
    """The joints from joint 0 down to the one that moves the whole body; often only joint 0.

    That is the last joint on the path to the hips whose position channels vary.
    """
    path = body.path_to(parents, body.find_hips(names, parents, offsets))
    while len(path) > 1 and not _range(joints[path[-1]], rows):
        path.pop()
    return path


def _unique_names(joints: list[_Joint], warnings: list[str]) -> list[str]:
    """Joint names, with a number appended to repeated ones."""
    names: list[str] = []
    used: set[str] = set()
    for joint in joints:
        name, number = joint.name, 2
        while name in used:
            name, number = f"{joint.name}_{number}", number + 1
        if name != joint.name:
            warnings.append(f"a second joint {joint.name!r} is called {name!r}")
        used.add(name)
        names.append(name)
    return names


def save_bvh(clip: Clip, path: str | os.PathLike[str]) -> None:
    """Write ``clip`` to ``path`` atomically: centimetres, rotation order ZYX.

    The root has six channels, every other joint three. Joints are written depth first, as BVH requires;
    blanks and braces in names become underscores. Angles have six decimals of a degree. BVH cannot express
    rest rotations: they are lost unless frame 0 holds the rest pose.
    """
    order = _depth_first(clip.skeleton)
    degrees = np.degrees(to_euler_zyx(clip.quats[:, order])).reshape(len(clip), -1)
    rows = np.concatenate((clip.root.astype(np.float64) * _CENTIMETRES, degrees), axis=1)
    line = " ".join(["%.6f"] * rows.shape[1])
    text = [
        *_header(clip.skeleton),
        "MOTION",
        f"Frames: {len(clip)}",
        f"Frame Time: {1.0 / clip.rate:.10f}",
        *(line % tuple(row) for row in rows.tolist()),
        "",
    ]
    write_atomic(Path(path), "\n".join(text).encode())


def _depth_first(skeleton: Skeleton) -> list[int]:
    """Joint indices in the order in which the hierarchy lists them."""
    order: list[int] = []
    stack = [0]
    while stack:
        joint = stack.pop()
        order.append(joint)
        stack.extend(reversed(_children(skeleton, joint)))
    return order


def _children(skeleton: Skeleton, joint: int) -> list[int]:
    return [int(child) for child in np.flatnonzero(skeleton.parents == joint)]


def _triple(values: tuple[float, ...]) -> str:
    return " ".join(f"{value * _CENTIMETRES:.6f}" for value in values)


def _header(skeleton: Skeleton) -> list[str]:
    """The lines of the HIERARCHY part."""
    lines = ["HIERARCHY"]
    depth_of = {-1: -1}
    open_joints: list[int] = []

    def close_down_to(parent: int) -> None:
        while open_joints and open_joints[-1] != parent:
            lines.append("\t" * depth_of[open_joints.pop()] + "}")

    for joint in _depth_first(skeleton):
        parent = int(skeleton.parents[joint])
        close_down_to(parent)
        depth = depth_of[joint] = depth_of[parent] + 1
        pad = "\t" * depth
        name = _UNSAFE.sub("_", skeleton.names[joint])
        offset = tuple(float(value) for value in skeleton.offsets[joint]) if parent >= 0 else (0.0, 0.0, 0.0)
        channels = "6 Xposition Yposition Zposition" if parent < 0 else "3"
        lines += [
            f"{pad}{'JOINT' if parent >= 0 else 'ROOT'} {name}",
            f"{pad}{{",
            f"{pad}\tOFFSET {_triple(offset)}",
            f"{pad}\tCHANNELS {channels} Zrotation Yrotation Xrotation",
        ]
        open_joints.append(joint)
        if not _children(skeleton, joint):
            tip = skeleton.tips.get(joint, (0.0, 0.0, 0.0))
            lines += [f"{pad}\tEnd Site", f"{pad}\t{{", f"{pad}\t\tOFFSET {_triple(tip)}", f"{pad}\t}}"]
    close_down_to(-1)
    return lines
