"""Acclaim AMC files: motion on the skeleton of an ASF file."""

import io
import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pyanticip.errors import OptionError, counted
from pyanticip.motion import text, units
from pyanticip.motion.asf import AcclaimSkeleton, Bone, find_asf, read_asf
from pyanticip.motion.clip import Clip
from pyanticip.motion.rotations import conjugate, from_euler, multiply

DEFAULT_RATE = 120.0
"""AMC files mostly have no rate; nearly all of the CMU database was captured at 120 Hz."""

_HEADER = re.compile(rb"(?:[ \t]*(?:[#:][^\n]*)?\n)*")
_ANGLES = re.compile(rb"^[ \t]*:(RADIANS|DEGREES)", re.MULTILINE | re.IGNORECASE)
_RATE = re.compile(rb"^[ \t]*:SAMPLES-PER-SECOND[ \t]+(\S+)", re.MULTILINE | re.IGNORECASE)
_FRAME = re.compile(rb"^[ \t]*\d+[ \t]*$", re.MULTILINE)
_NAME = re.compile(rb"^[ \t]*([A-Za-z_][^\s]*)", re.MULTILINE)
_AXES = {"rx": 0, "ry": 1, "rz": 2}


def read_amc(
    path: Path,
    data: bytes,
    *,
    skeleton: Path | None = None,
    rate: float | None = None,
    length_unit: str | float | None = None,
) -> Clip:
    """The clip of an AMC file's bytes; its ASF file is ``skeleton``, or found by :func:`.asf.find_asf`.

    A bone that a frame leaves out keeps its rotation; a bone without any rotation is at rest. Rotations are
    relative to the ASF's rest pose, in world axes, so a frame of zeros is that rest pose.

    Raises:
        FormatError: One line with file, line and reason.
    """
    asf_path = find_asf(path) if skeleton is None else skeleton
    acclaim = read_asf(asf_path)
    data = text.text_lines(path, data)
    warnings: list[str] = []
    header = _HEADER.match(data)
    start = header.end() if header else 0
    # The AMC file's angle unit takes precedence over its skeleton's.
    angle_unit = _ANGLES.search(data, 0, start)
    degrees = acclaim.degrees if angle_unit is None else angle_unit[1].upper() == b"DEGREES"
    stated = _RATE.search(data, 0, start)
    if rate is None and stated is not None:
        line = data.count(b"\n", 0, stated.start(1)) + 1
        try:
            rate = units.check_rate(text.parse_number(path, line, stated[1]))
        except OptionError as error:
            raise text.fail(path, line, str(error)) from None
    columns, rows = _read_regular(path, data, start, acclaim) or _read_lines(
        path, data, start, acclaim, warnings
    )
    if (np.diff(rows[:, 0]) != 1.0).any():
        after = int(rows[np.argmax(np.diff(rows[:, 0]) != 1.0), 0])
        warnings.append(f"frame numbers do not go on by one after frame {after}; every frame was kept")
    scale = acclaim.metres_per_unit(length_unit)
    to_radians = np.pi / 180.0 if degrees else 1.0
    body = acclaim.skeleton(scale)
    quats = np.empty((len(rows), len(body), 4), np.float32)
    quats[..., 0] = 1.0
    quats[..., 1:] = 0.0
    root = np.tile(acclaim.position, (len(rows), 1))
    stretched: list[str] = []
    unmoved: list[str] = []
    for index, bone in enumerate(acclaim.bones):
        if bone.name not in columns:
            if bone.channels:
                unmoved.append(bone.name)
            continue
        first = columns[bone.name]
        values = rows[:, first : first + len(bone.channels)]
        quats[:, index] = _rotations(bone, values, to_radians)
        if index == 0:
            root = root + _translations(bone, values)
        elif _stretches(bone, values):
            stretched.append(bone.name)
    if degrees:
        angles = [
            columns[bone.name] + number
            for bone in acclaim.bones
            if bone.name in columns
            for number, channel in enumerate(bone.channels)
            if channel in _AXES
        ]
        warnings += units.angle_warnings(rows, angles, "if so, write :RADIANS at its start")
    if unmoved:
        warnings.append(f"in no frame, so at rest throughout: {text.list_names(unmoved)}")
    if stretched:
        warnings.append(
            f"bones do not stretch here: the translations of {text.list_names(stretched)} are left out"
        )
    if rate is None:
        rate = DEFAULT_RATE
        warnings.append(
            f"AMC files have no rate: {rate:g} Hz assumed; if that is wrong, give {units.RATE_HINT}"
        )
    return Clip(
        quats,
        (root * scale).astype(np.float32),
        units.check_rate(rate),
        body,
        path.stem,
        (*warnings, *units.size_warnings(body.reach())),
        source=str(path),
        unit=scale,
    )


def _rotations(bone: Bone, values: NDArray[np.float64], to_radians: float) -> NDArray[np.float64]:
    """(T, 4) rotations C M inverse(C); the first channel's rotation is applied first."""
    rotations = [(index, _AXES[name]) for index, name in enumerate(bone.channels) if name in _AXES]
    angles = values[:, [index for index, _ in reversed(rotations)]] * to_radians
    motion = from_euler(angles, [axis for _, axis in reversed(rotations)])
    return multiply(multiply(bone.axis, motion), conjugate(bone.axis))


def _translations(bone: Bone, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(T, 3) translations in file units."""
    translations = np.zeros((len(values), 3))
    for index, name in enumerate(bone.channels):
        if name in ("tx", "ty", "tz"):
            translations[:, "xyz".index(name[1])] = values[:, index]
    return translations


def _stretches(bone: Bone, values: NDArray[np.float64]) -> bool:
    """Whether a bone moves off its parent's end, or changes its length."""
    lengths = values[:, [name == "l" for name in bone.channels]]
    return bool(_translations(bone, values).any() or (lengths != lengths[0]).any())


def _read_regular(
    path: Path, data: bytes, start: int, acclaim: AcclaimSkeleton
) -> tuple[dict[str, int], NDArray[np.float64]] | None:
    """The fast path: all frames parsed by NumPy, if each has the same bones in the same order; else None.

    Returns (bone name -> its first column, rows); column 0 is the frame number.
    """
    channels = {bone.name.encode(): len(bone.channels) for bone in acclaim.bones}
    first = _FRAME.match(data, start)
    if first is None:
        return None
    second = _FRAME.search(data, first.end())
    end = second.start() if second else len(data)
    names = _NAME.findall(data, first.end(), min(end, first.end() + text.MAX_LINE_BYTES))
    if not names or len(set(names)) != len(names) or not channels.keys() >= set(names):
        return None
    counts = np.array([1] + [1 + channels[name] for name in names])
    width = int(counts.sum()) - len(names)
    blocks: list[NDArray[np.float64]] = []
    while start < len(data):
        end = len(data)
        if end - start > text.BLOCK_BYTES + text.MAX_LINE_BYTES:
            middle = start + text.BLOCK_BYTES
            cut = _FRAME.search(data, middle, middle + text.MAX_LINE_BYTES)
            if cut is None:
                return None
            end = cut.start()
        block = data[start:end]
        block_names = _NAME.findall(block)
        frames, rest = divmod(len(block_names), len(names))
        words = text.words_per_line(block)
        words = words[words > 0]
        if rest or block_names != names * frames or len(words) != frames * len(counts):
            return None
        if (words.reshape(frames, -1) != counts).any():
            return None
        try:
            values = text.parse_numbers(_NAME.sub(b"", block))
        except ValueError:
            return None
        if values.size != frames * width or not (np.abs(values) <= text.MAX_NUMBER).all():
            return None
        blocks.append(values.reshape(frames, width))
        text.check_size(path, None, sum(map(len, blocks)), width)
        start = end
    firsts = 1 + np.cumsum(counts[1:] - 1) - (counts[1:] - 1)
    columns = {name.decode(): int(first) for name, first in zip(names, firsts, strict=True)}
    return columns, np.concatenate(blocks)


def _read_lines(
    path: Path, data: bytes, start: int, acclaim: AcclaimSkeleton, warnings: list[str]
) -> tuple[dict[str, int], NDArray[np.float64]]:
    """The general path, line by line: frames may omit or reorder bones. Errors name their line."""
    columns: dict[str, int] = {}
    width = 1
    widths = {bone.name: len(bone.channels) for bone in acclaim.bones}
    spelt = {bone.name.lower(): bone.name for bone in acclaim.bones}
    for bone in acclaim.bones:
        columns[bone.name] = width
        width += len(bone.channels)
    rows: list[NDArray[np.float64]] = []
    seen: list[set[str]] = []
    line = data.count(b"\n", 0, start)
    for content in io.BytesIO(data[start:]):
        line += 1
        words = content.split()
        if not words or words[0].startswith((b"#", b":")):
            continue
        name = words[0].decode("utf-8", "replace")
        if len(words) == 1 and name.isdecimal():
            text.check_size(path, line, len(rows) + 1, width)
            rows.append(rows[-1].copy() if rows else np.zeros(width))
            rows[-1][0] = min(float(name), 1e15)
            seen.append(set())
            continue
        if not rows:
            raise text.fail(path, line, f"expected a frame number, got {text.quote(content.strip())}")
        name = spelt.get(name.lower(), name)
        if name not in columns:
            raise text.fail(path, line, f"a bone {text.quote(name)} that the skeleton does not have")
        if name in seen[-1]:
            raise text.fail(path, line, f"bone {text.quote(name)} comes twice in a frame")
        if len(words) - 1 != widths[name]:
            raise text.fail(
                path, line, f"{name} has {widths[name]} numbers, got {len(words) - 1} (truncated?)"
            )
        rows[-1][columns[name] : columns[name] + widths[name]] = [
            text.parse_number(path, line, word) for word in words[1:]
        ]
        seen[-1].add(name)
    if not rows:
        raise text.fail(path, line, "has no frame (truncated?)")
    all_bones = set().union(*seen)
    if not all_bones:
        raise text.fail(path, line, "no frame has a bone (truncated?)")
    if len(rows) > 1 and seen[-1] != all_bones and all(bones == all_bones for bones in seen[:-1]):
        raise text.fail(
            path, line, f"the last frame lacks {counted(len(all_bones - seen[-1]), 'bone')} (truncated?)"
        )
    incomplete = sum(bones != all_bones for bones in seen)
    if incomplete:
        warnings.append(f"bones that {counted(incomplete, 'frame')} left out kept the rotation they had")
    return {name: column for name, column in columns.items() if name in all_bones}, np.stack(rows)
