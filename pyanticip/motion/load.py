"""Loading of motion files of any supported format."""

import os
import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from pyanticip.errors import FormatError, OptionError
from pyanticip.motion import text
from pyanticip.motion.clip import Clip
from pyanticip.motion.joints import Joints, checked_joints, read_joints, with_joints
from pyanticip.motion.understand import understand
from pyanticip.motion.units import MIN_PLAYABLE_RATE, RATE_HINT, check_rate

SUFFIXES = (".amc", ".bvh", ".c3d", ".mvnx", ".npz", ".anticip")
"""Suffixes of motion files. The format is detected by content, not by suffix."""

RECORDING_MAGIC = b"ANTICIP\0"
_KINDS = "BVH, AMC (with its ASF), C3D, MVNX, npz (ours, AMASS, AIST++ or SMPL), or an .anticip recording"
_OTHER_FORMATS = (
    (rb"Kaydara FBX|; ?FBX \d", "FBX"),
    (rb"glTF", "glTF, VRM or VRMA"),
    (rb"PathFileType", "TRC"),
    (rb"Format Version,", "CSV from Motive"),
    (rb"Vocaloid Motion Data", "VMD"),
    (rb"#usda|PXR-USDC", "USD"),
    (rb"\x1f\x8b|BZh|\xfd7zXZ|7z\xbc\xaf|Rar!", "a compressed file"),
    (rb"\x93NUMPY", "a NumPy array (npy)"),
    (
        rb"\x80[\x02-\x05]",
        "a pickle, which may run any program (if you trust it: import numpy, pickle;"
        " numpy.savez('clip.npz', **pickle.load(open('clip.pkl', 'rb'))))",
    ),
)
"""Unsupported formats, named in the error: a pattern of their first bytes, and their name."""
_BVH_START = re.compile(rb"(?:\xef\xbb\xbf)?(?:\s*#[^\r\n]*[\r\n])*\s*HIERARCHY", re.IGNORECASE)
_ASF_START = re.compile(rb"^[ \t]*:(?:bonedata|hierarchy|root|units)", re.MULTILINE | re.IGNORECASE)
_AMC_START = re.compile(
    rb"^[ \t]*:FULLY-SPECIFIED|\A[ \t]*#!OML|\A\s*\d+[ \t]*\r?\n", re.MULTILINE | re.IGNORECASE
)


def load_motion(
    path: str | os.PathLike[str],
    *,
    rate: float | None = None,
    skeleton: str | os.PathLike[str] | None = None,
    units: str | float | None = None,
    keep_tpose: bool = False,
    up: str | None = None,
    rest: int | None = None,
    joints: str | os.PathLike[str] | Joints | None = None,
) -> Clip:
    """Read a motion file, detected by content: BVH, AMC with its ASF, C3D, MVNX, npz, ``.anticip`` recording.

    Args:
        path: The file.
        rate: Frames per second, overriding the file's. AMC files have none: 120 Hz by default.
        skeleton: The ASF file of an AMC file. Default: the ASF of the same name beside it, else the one
            named after the subject (``05.asf`` for ``05_02.amc``), else the only one in the folder.
        units: The file's unit of length: "m", "cm", "mm", "in", "cmu" or metres per unit. Default: guessed
            from the size of the body (``pyanticip.motion.units.guess_unit``).
        keep_tpose: Keep a T-pose in frame 0 from which the motion jumps away. By default it is dropped, with
            a line in ``clip.warnings``; its pose becomes ``clip.skeleton.rest`` either way.
        up: The up axis of the file: "y", "z", "x", "-y", "-z" or "-x". Default: estimated from the motion.
        rest: Index of a frame whose pose is the rest pose: a T- or A-pose, or standing straight. Default: the
            zero pose if it is a T-pose, else a T-pose in the motion, else an estimate from the motion.
        joints: Map of canonical joints to the file's joints, if names are not enough: a TOML file as written
            by ``pyanticip info FILE --joints``, or its contents.

    Returns:
        Clip: Local quaternions (T, J, 4) w x y z, root (T, 3) in metres, y up.

    Raises:
        FormatError: The file is missing, empty, truncated, binary, too large or malformed; one line with
            file, line and reason.
        OptionError: An invalid rate, unit, axis, frame or joint map.
    """
    file = Path(path)
    if rate is not None:
        rate = check_rate(rate)
    if text.read_start(file, len(RECORDING_MAGIC)) == RECORDING_MAGIC:
        from pyanticip.motion.recorded import read_recorded

        # Recordings may last for hours, so they are streamed and have no size limit.
        return read_recorded(file, rate=rate)
    data = text.read_bytes(file)
    clip = _parse(file, data, rate, skeleton, units)
    try:
        if joints is not None:
            clip = with_joints(
                clip, read_joints(joints) if isinstance(joints, str | os.PathLike) else checked_joints(joints)
            )
        has_hints = up is not None or rest is not None or joints is not None
        return _understand(clip, data, has_hints, up=up, rest_frame=rest, keep=keep_tpose)
    except OptionError as error:
        raise OptionError(f"{file}: {error}") from None


def load_take(path: str | os.PathLike[str], **reading: Any) -> Clip:
    """:func:`load_motion` for playing or learning: refuses rates too low to show movement.

    A frame time given in milliseconds, for example, would turn a take into hours. Raises FormatError and
    OptionError.
    """
    clip = load_motion(path, **reading)
    if clip.rate < MIN_PLAYABLE_RATE:
        raise FormatError(
            f"{path}: {clip.rate:.3g} frames a second, expected at least {MIN_PLAYABLE_RATE:g};"
            f" give {RATE_HINT}"
        )
    return clip


def parse_motion(file: Path, data: bytes) -> Clip:
    """As :func:`load_motion` without options, for the bytes of a file; ``file`` is its name in errors."""
    return _understand(_parse(file, data), data, has_hints=False)


def _understand(clip: Clip, data: bytes, has_hints: bool, **hints: Any) -> Clip:
    # Our own files need no interpretation; an archive's directory, with the names of its arrays, ends it.
    if _is_npz(data) and b"quats.npy" in data[-65536:] and not has_hints:
        return clip
    return understand(clip, lead_in=_is_bvh(data), **hints)


def check_reading(
    paths: Collection[Path],
    given: Iterable[str],
    *,
    rate_for_recordings: bool = False,
    folder: Path | None = None,
) -> None:
    """Refuse command-line options that apply to none of the files.

    Args:
        paths: The files.
        given: Names of the reading options that were given.
        rate_for_recordings: Whether a rate applies to recordings too.
        folder: The folder that ``paths`` are from. Its unreadable files are not refused here: each is
            reported when it is read.

    Raises:
        FormatError: A file that cannot be read.
        OptionError: ``skeleton`` without an AMC file, or another option for recordings only.
    """
    for name in given:
        if not any(_applies(name, path, rate_for_recordings, folder is not None) for path in paths):
            what = "AMC files" if name == "skeleton" else "motion files that are no recording"
            raise OptionError(
                f"--{name.replace('_', '-')} is for {what}; "
                f"{folder or ', '.join(map(str, paths))} has no use for it"
            )


def _applies(name: str, path: Path, rate_for_recordings: bool, ignore_unreadable: bool) -> bool:
    """Whether the option ``name`` applies to a file."""
    try:
        head = text.read_start(path, 65536)
    except FormatError:
        if ignore_unreadable:
            return True
        raise
    if head.startswith(RECORDING_MAGIC):
        return rate_for_recordings and name.endswith("rate")
    has_skeleton = _is_bvh(head) or _is_npz(head) or _is_c3d(head) or b"<mvnx" in head
    return name != "skeleton" or not has_skeleton


def _is_bvh(data: bytes) -> bool:
    return _BVH_START.match(data[:65536]) is not None


def _is_npz(data: bytes) -> bool:
    return data.startswith(b"PK\x03\x04")


def _is_c3d(data: bytes) -> bool:
    """Whether byte 1 is C3D's mark, and the section that byte 0 points to has a known processor type."""
    return (
        data[1:2] == b"P"
        and data[:1] > b"\0"
        and data[512 * data[0] - 509 : 512 * data[0] - 508] in (b"T", b"U", b"V")
    )


def _parse(
    file: Path,
    data: bytes,
    rate: float | None = None,
    skeleton: str | os.PathLike[str] | None = None,
    units: str | float | None = None,
) -> Clip:
    if _is_bvh(data):
        from pyanticip.motion.bvh import read_bvh

        return read_bvh(file, data, rate=rate, length_unit=units)
    if _is_npz(data):
        from pyanticip.motion.npz import read_npz

        return read_npz(file, data, rate=rate, length_unit=units)
    if _is_c3d(data) or file.suffix.lower() == ".c3d":
        from pyanticip.motion.c3d import read_c3d

        return read_c3d(file, data, rate=rate, length_unit=units)
    head = data[:65536]
    if b"<mvnx" in head:
        from pyanticip.motion.mvnx import read_mvnx

        return read_mvnx(file, data, rate=rate, length_unit=units)
    if _ASF_START.search(head):
        raise text.fail(
            file,
            1,
            "is a skeleton without motion (ASF): load the AMC file, with --skeleton this one (skeleton= in"
            " Python)",
        )
    if _AMC_START.search(head) or file.suffix.lower() == ".amc":
        from pyanticip.motion.amc import read_amc

        asf = None if skeleton is None else Path(skeleton)
        return read_amc(file, data, skeleton=asf, rate=rate, length_unit=units)
    without_zeros = head[:400].replace(b"\0", b"")
    if without_zeros.startswith((b"\xff\xfe", b"\xfe\xff")) or _is_bvh(without_zeros):
        encoding = "UTF-16" if 2 * len(without_zeros) >= len(head[:400]) else "UTF-32"
        raise text.fail(file, 1, f"is text in {encoding}: save it as UTF-8")
    other = next((f", it is {name}" for start, name in _OTHER_FORMATS if re.match(start, head)), "")
    raise text.fail(file, 1, f"is not a motion file that can be read{other}: expected {_KINDS}")
