"""NumPy archives (npz): this project's own clips, and AMASS / SMPL motion."""

import io
import os
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pyanticip.errors import FormatError, MotionError, one_line
from pyanticip.motion import text, units
from pyanticip.motion.atomic import write_atomic
from pyanticip.motion.clip import Clip
from pyanticip.motion.rotations import from_vectors, normalized
from pyanticip.motion.skeleton import MAX_JOINTS, Skeleton
from pyanticip.untrusted import BROKEN_ARCHIVE, check_unpacked

FORMAT = "pyanticip-clip"
VERSION = 1
MAX_MEMBER_BYTES = 512 * 1024 * 1024
"""Maximum size of an uncompressed array."""

_MAX_ANGLE = 4.0 * np.pi
"""Largest plausible angle of a joint in radians."""
_MAX_HEADER_BYTES = 65536
"""Bytes of an array that are searched for its header; NumPy reads fewer."""
_BLOCK_FRAMES = 4096
"""Frames converted to quaternions at once, so that working memory does not grow with the file."""
_JOINT_COUNTS = (22, 24, 52, 55)
"""Number of joints of SMPL without hands, SMPL, SMPL+H and SMPL-X."""
_OTHER_ROTATIONS = {6: "6D rotations", 9: "rotation matrices"}
"""Unsupported rotations by numbers per joint; their widths are never three times a joint count."""
_RATE_NAMES = ("mocap_framerate", "mocap_frame_rate", "fps", "framerate")
# Name, parent index and offset of the 22 joints that SMPL (Loper et al. 2015), SMPL+H and SMPL-X share. The
# files have no offsets, and retargeting uses only their directions: these are an average adult's of 1.7 m, in
# a T-pose facing +z, rounded to centimetres.
_BODY_JOINTS: tuple[tuple[str, int, tuple[float, float, float]], ...] = (
    ("pelvis", -1, (0.0, 0.0, 0.0)),
    ("left_hip", 0, (0.08, -0.08, 0.0)),
    ("right_hip", 0, (-0.08, -0.08, 0.0)),
    ("spine1", 0, (0.0, 0.11, 0.0)),
    ("left_knee", 1, (0.0, -0.39, 0.0)),
    ("right_knee", 2, (0.0, -0.39, 0.0)),
    ("spine2", 3, (0.0, 0.13, 0.0)),
    ("left_ankle", 4, (0.0, -0.40, 0.0)),
    ("right_ankle", 5, (0.0, -0.40, 0.0)),
    ("spine3", 6, (0.0, 0.06, 0.0)),
    ("left_foot", 7, (0.0, -0.06, 0.13)),
    ("right_foot", 8, (0.0, -0.06, 0.13)),
    ("neck", 9, (0.0, 0.21, 0.0)),
    ("left_collar", 9, (0.07, 0.12, 0.0)),
    ("right_collar", 9, (-0.07, 0.12, 0.0)),
    ("head", 12, (0.0, 0.09, 0.0)),
    ("left_shoulder", 13, (0.11, 0.0, 0.0)),
    ("right_shoulder", 14, (-0.11, 0.0, 0.0)),
    ("left_elbow", 16, (0.26, 0.0, 0.0)),
    ("right_elbow", 17, (-0.26, 0.0, 0.0)),
    ("left_wrist", 18, (0.25, 0.0, 0.0)),
    ("right_wrist", 19, (-0.25, 0.0, 0.0)),
)

_JOINTS = len(_BODY_JOINTS)

_SPELLINGS = (("root_orient", "pose_body"), ("global_orient", "body_pose"))
"""Arrays of the pelvis' rotation and the other joints': AMASS's and the smplx package's."""
_WHOLE = ("poses", "smpl_poses")
"""Names of an array of all rotations: AMASS's and AIST++'s (Li et al. 2021)."""
_PLACES = ("trans", "transl", "smpl_trans")
_AIST_RATE = 60.0
"""AIST++ files state no rate; all are of 60 frames a second."""

_EXPECTED = (
    "arrays 'quats' (ours), 'poses' and 'trans' (AMASS, SMPL)"
    ", 'smpl_poses' and 'smpl_trans' (AIST++) or 'global_orient', 'body_pose' and 'transl' (SMPL)"
)


def save_npz(clip: Clip, path: str | os.PathLike[str]) -> None:
    """Write ``clip`` atomically as an npz file that :func:`load_motion` reads back exactly.

    Arrays: quats (T, J, 4), root (T, 3), rate, names, parents, offsets, rest, tip_joints, tips, mask, name,
    format and version. No pickled objects.
    """
    tips = clip.skeleton.tips
    arrays = {
        "format": np.array(FORMAT),
        "version": np.array(VERSION),
        "quats": clip.quats,
        "root": clip.root,
        "rate": np.array(clip.rate),
        "names": np.array(clip.skeleton.names),
        "parents": clip.skeleton.parents,
        "offsets": clip.skeleton.offsets,
        "rest": clip.skeleton.rest,
        "tip_joints": np.array(list(tips), np.int32),
        "tips": np.array(list(tips.values()), np.float64).reshape(-1, 3),
        "mask": clip.mask,
        "name": np.array(clip.name),
    }
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    write_atomic(Path(path), buffer.getvalue())


def read_npz(
    path: Path, data: bytes, *, rate: float | None = None, length_unit: str | float | None = None
) -> Clip:
    """The clip of an npz file's bytes: this project's own, or AMASS / SMPL with ``poses`` and ``trans``.

    Raises:
        FormatError: One line with file and reason.
    """
    arrays = _Archive(path, data)
    try:
        if "quats" in arrays.names:
            return _read_own(path, arrays, rate, length_unit)
        if not arrays.names.isdisjoint((*_WHOLE, *(orient for orient, _ in _SPELLINGS))):
            return _read_amass(path, arrays, rate, length_unit)
    except FormatError:
        raise
    except MotionError as error:
        raise text.fail(path, None, str(error)) from None
    raise text.fail(path, None, f"expected {_EXPECTED}")


class _Archive:
    """The arrays of an npz, read on access; sizes are checked before memory is allocated."""

    def __init__(self, path: Path, data: bytes) -> None:
        self.path = path
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
            check_unpacked(path, self._zip, len(data))
            self.names = {name.removesuffix(".npy") for name in self._zip.namelist() if name.endswith(".npy")}
        except FormatError:
            raise
        except BROKEN_ARCHIVE as error:
            raise text.fail(path, None, f"is a broken npz archive: {one_line(error)}") from None

    def __getitem__(self, name: str) -> NDArray[np.generic]:
        if name not in self.names:
            raise text.fail(self.path, None, f"has no array {name!r}")
        return self._read(name)

    def _read(self, name: str) -> NDArray[np.generic]:
        content = bytearray()
        try:
            with self._zip.open(name + ".npy") as member:
                # In blocks: reading it at once would hold the compressed and the uncompressed data twice.
                while len(content) <= MAX_MEMBER_BYTES and (block := member.read(text.BLOCK_BYTES)):
                    content += block
        except BROKEN_ARCHIVE as error:
            raise text.fail(self.path, None, f"array {name!r} cannot be read: {one_line(error)}") from None
        if len(content) > MAX_MEMBER_BYTES:
            raise text.fail(self.path, None, f"array {name!r} is larger than {MAX_MEMBER_BYTES >> 20} MB")
        return _array(self.path, name, content)


def _array(path: Path, name: str, content: bytearray) -> NDArray[np.generic]:
    """An array from .npy bytes; the header is checked against the number of bytes."""
    stream = io.BytesIO(content[:_MAX_HEADER_BYTES])
    try:
        version = np.lib.format.read_magic(stream)
        read_header = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, fortran, dtype = read_header(stream)
    # NumPy evaluates the header as a Python literal: damaged ones raise almost any exception.
    except Exception as error:
        raise text.fail(path, None, f"array {name!r} has a broken header: {one_line(error)}") from None
    if dtype.hasobject or dtype.fields is not None:
        raise text.fail(path, None, f"array {name!r} holds Python objects, expected numbers or text")
    size = int(np.prod([int(length) for length in shape], dtype=object)) if shape else 1
    left = len(content) - stream.tell()
    if min(shape, default=0) < 0 or size < 0 or size * dtype.itemsize > left:
        raise text.fail(
            path, None, f"array {name!r} is cut short: {left} bytes, expected {size * dtype.itemsize}"
        )
    try:
        if dtype.itemsize == 0:
            # NumPy allocates a byte for each empty string, although the file has none.
            if size > MAX_JOINTS:
                raise ValueError(f"{size} texts of no length")
            return np.zeros(shape, dtype)
        flat = np.frombuffer(content, dtype, count=size, offset=stream.tell())
        return flat.reshape(shape, order="F" if fortran else "C")
    # Lengths that are booleans, too many dimensions, or a length beyond 64 bits beside a 0.
    except (TypeError, ValueError, OverflowError) as error:
        raise text.fail(path, None, f"array {name!r} has a broken header: {one_line(error)}") from None


def _numbers(arrays: _Archive, name: str, shape: tuple[int | None, ...]) -> NDArray[np.float64]:
    """The array as float64, checked to be finite and of ``shape`` (None: any length)."""
    return _checked(arrays, name, shape).astype(np.float64, copy=False)


def _checked(
    arrays: _Archive, name: str, shape: tuple[int | None, ...], array: NDArray[np.generic] | None = None
) -> NDArray[np.generic]:
    """The array in the file's number type, checked to be finite and of ``shape`` (None: any length)."""
    array = arrays[name] if array is None else array
    expected = "(" + ", ".join("T" if length is None else str(length) for length in shape) + ")"
    fits = len(array.shape) == len(shape) and all(
        length is None or length == actual for length, actual in zip(shape, array.shape, strict=True)
    )
    if not fits or array.dtype.kind not in "fiub":
        raise text.fail(
            arrays.path,
            None,
            f"{name} must be numbers of shape {expected}, got {array.dtype} {array.shape}",
        )
    if array.size and not max(-float(array.min()), float(array.max())) <= text.MAX_NUMBER:
        raise text.fail(arrays.path, None, f"{name} must hold finite numbers of at most {text.MAX_NUMBER:g}")
    return array


def _scalar(arrays: _Archive, name: str) -> float:
    values = arrays[name].reshape(-1)
    if values.size != 1 or values.dtype.kind not in "fiu" or not np.isfinite(values[0]):
        raise text.fail(arrays.path, None, f"{name} must be one number")
    return float(values[0])


def _read_own(path: Path, arrays: _Archive, rate: float | None, length_unit: str | float | None) -> Clip:
    if "version" in arrays.names and _scalar(arrays, "version") > VERSION:
        raise text.fail(
            path, None, f"is of version {_scalar(arrays, 'version'):g}, this program reads {VERSION}"
        )
    names = arrays["names"].reshape(-1)
    if names.dtype.kind != "U":
        raise text.fail(path, None, f"names must be text, got {names.dtype}")
    joints = len(names)
    if joints > MAX_JOINTS:
        raise text.fail(path, None, f"has {joints} joints, the most is {MAX_JOINTS}")
    parents = _numbers(arrays, "parents", (joints,))
    tips: dict[int, tuple[float, float, float]] = {}
    if "tips" in arrays.names:
        ends = _numbers(arrays, "tips", (None, 3))
        owners = _numbers(arrays, "tip_joints", (len(ends),))
        tips = {int(j): (float(x), float(y), float(z)) for j, (x, y, z) in zip(owners, ends, strict=True)}
    rest = _numbers(arrays, "rest", (joints, 4)) if "rest" in arrays.names else np.empty((0, 4))
    scale = 1.0 if length_unit is None else units.metres_per_unit(length_unit, 1.0)
    skeleton = Skeleton.in_metres(
        [str(name) for name in names],
        np.clip(parents, -1, joints),
        _numbers(arrays, "offsets", (joints, 3)),
        tips,
        scale,
    ).with_rest(rest)
    mask = arrays["mask"] if "mask" in arrays.names else np.empty(0, np.bool_)
    if mask.dtype.kind != "b":
        raise text.fail(path, None, f"mask must be bool, got {mask.dtype}")
    return Clip(
        _numbers(arrays, "quats", (None, joints, 4)).astype(np.float32),
        (_numbers(arrays, "root", (None, 3)) * scale).astype(np.float32),
        rate if rate is not None else _scalar(arrays, "rate"),
        skeleton,
        name=str(arrays["name"]) if "name" in arrays.names else path.stem,
        mask=mask.astype(np.bool_),
        source=str(path),
        unit=scale,
    )


def _read_amass(path: Path, arrays: _Archive, rate: float | None, length_unit: str | float | None) -> Clip:
    """AMASS (Mahmood et al. 2019): axis-angle ``poses`` (T, >= 66), ``trans`` (T, 3) metres, usually z up.

    ``trans`` is taken as the pelvis' position; the true one differs by a constant few centimetres that depend
    on the body's shape parameters, which are not read. In AIST++ y is up, and ``smpl_scaling`` is the
    number of its units a metre.
    """
    quats, largest = _to_quaternions(_vectors(path, arrays))
    frames = len(quats)
    warnings: list[str] = []
    if rate is None:
        rate_name = next((name for name in _RATE_NAMES if name in arrays.names), None)
        if rate_name is not None:
            rate = _scalar(arrays, rate_name)
        elif "smpl_scaling" in arrays.names:
            rate = _AIST_RATE
            warnings.append(f"has no frame rate: {rate:g} Hz, as AIST++ has; if not, give {units.RATE_HINT}")
        else:
            raise text.fail(path, None, f"has no frame rate ({_RATE_NAMES[0]}): give {units.RATE_HINT}")
    place = next((place for place in _PLACES if place in arrays.names), None)
    root = np.zeros((frames, 3)) if place is None else _numbers(arrays, place, (frames, 3))
    if place is None:
        warnings.append("has no 'trans': the root stays at the origin")
    if largest > _MAX_ANGLE:
        warnings.append(f"rotations of up to {largest:.3g} rad: are its poses in degrees?")
    metre, up = 1.0, "z"
    if "smpl_scaling" in arrays.names:
        up = "y"
        metre = _scalar(arrays, "smpl_scaling")
        if not 1e-3 <= metre <= 1e5:
            raise text.fail(path, None, f"smpl_scaling must be units a metre, 0.001 to 100000, got {metre:g}")
    root = root * (1.0 / metre if length_unit is None else units.metres_per_unit(length_unit, 1.0))
    return Clip(
        quats,
        root.astype(np.float32),
        rate,
        smpl_skeleton(),
        name=path.stem,
        warnings=(*warnings, *units.path_warnings(root, rate, f"if that is wrong, give {units.UNITS_HINT}")),
        source=str(path),
        up=up,
    )


def _vectors(path: Path, arrays: _Archive) -> list[NDArray[np.generic]]:
    """The rotation vectors of the 22 joints, as arrays that together are (T, 66), T >= 1."""
    whole = next((name for name in _WHOLE if name in arrays.names), None)
    if whole is not None:
        poses = _rows(arrays[whole])
        if poses.ndim != 2 or poses.shape[1] < 3 * _JOINTS:
            raise text.fail(path, None, f"{whole} must have shape (T, >= {3 * _JOINTS}), got {poses.shape}")
        if poses.shape[1] in (3 * joints - 3 for joints in _JOINT_COUNTS):
            reason = (
                f"{whole} of shape {poses.shape} lack the pelvis' rotation, the first three numbers of each"
            )
            raise text.fail(path, None, reason)
        for numbers, kind in _OTHER_ROTATIONS.items():
            if poses.shape[1] in (numbers * joints for joints in _JOINT_COUNTS):
                raise text.fail(
                    path,
                    None,
                    f"{whole} must be rotation vectors, three numbers a joint (66, 72, 156 or 165 in all),"
                    f" got {poses.shape}: {kind} of {poses.shape[1] // numbers} joints",
                )
        parts = [_checked(arrays, whole, poses.shape, poses)[:, : 3 * _JOINTS]]
    else:
        orient, body = next(names for names in _SPELLINGS if names[0] in arrays.names)
        parts = [_checked(arrays, orient, (None, 3), _rows(arrays[orient]))]
        joints = _rows(arrays[body])
        if joints.shape[1:] == (69,):  # SMPL's hands are joints, too
            joints = joints[:, : 3 * _JOINTS - 3]
        parts.append(_checked(arrays, body, (len(parts[0]), 3 * _JOINTS - 3), joints))
    text.check_size(path, None, len(parts[0]), 3 * _JOINTS, _JOINTS)
    if len(parts[0]) == 0:
        raise text.fail(path, None, "has no frame")
    return parts


def _rows(array: NDArray[np.generic]) -> NDArray[np.generic]:
    """(T, J, 3) as (T, 3 J)."""
    is_by_joint = array.ndim == 3 and array.shape[2] == 3
    return array.reshape(len(array), 3 * array.shape[1]) if is_by_joint else array


def _to_quaternions(parts: list[NDArray[np.generic]]) -> tuple[NDArray[np.float32], float]:
    """Quaternions (T, 22, 4) of rotation vectors, and the largest of their angles in radians."""
    quats = np.empty((len(parts[0]), _JOINTS, 4), np.float32)
    largest = 0.0
    for start in range(0, len(quats), _BLOCK_FRAMES):
        block = slice(start, start + _BLOCK_FRAMES)
        rows = np.concatenate([part[block].astype(np.float64) for part in parts], axis=1)
        vectors = rows.reshape(-1, _JOINTS, 3)
        quats[block] = normalized(from_vectors(vectors))
        largest = max(largest, float(np.linalg.norm(vectors, axis=2).max()))
    return quats, largest


def smpl_skeleton() -> Skeleton:
    """The 22 body joints of SMPL, in its order, with the proportions of an average adult."""
    return Skeleton(
        tuple(name for name, _, _ in _BODY_JOINTS),
        np.array([parent for _, parent, _ in _BODY_JOINTS], np.int32),
        np.array([offset for _, _, offset in _BODY_JOINTS], np.float32),
    )
