"""Memory files (``piece.memory``): safetensors, never pickle, validated before use."""

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from pyanticip._core import KEY_SIZE, KEYS_VERSION, Memory, resample
from pyanticip.errors import FormatError, MotionError, OptionError, one_line, reason
from pyanticip.memory.rehearsal import empty
from pyanticip.motion.atomic import write_file
from pyanticip.untrusted import open_file, safetensors_header
from pyanticip.vocabulary import CANONICAL_JOINTS, PARAMETERS, RATE

FORMAT: Final = "pyanticip-memory"
VERSION: Final = 1
"""Version of the file format; the keys inside have a version of their own."""

_NO_TAKES: Final[Mapping[str, Any]] = MappingProxyType({})

_FOLLOWED_SIZE: Final = 3 * len(PARAMETERS)
_SHAPES: Final[dict[str, tuple[int, np.dtype[Any]]]] = {
    "keys": (KEY_SIZE, np.dtype(np.int16)),
    "followed": (_FOLLOWED_SIZE, np.dtype(np.uint16)),
    "origins": (2, np.dtype(np.uint32)),
    "poses": (1 + 4 * len(CANONICAL_JOINTS), np.dtype(np.int16)),
}
_MOMENT_BYTES: Final = sum(width * kind.itemsize for width, kind in _SHAPES.values())
_MAX_HEADER_BYTES: Final = 1 << 20
"""Longest header that is read; it describes the arrays and names the takes."""
_QUAT_SCALE: Final = 32767
"""Quaternion components are stored as int16 in units of 1/32767."""
_POSE_STRIDE: Final = 2
"""Every second pose of a take's 50 Hz frames is stored."""


def save_memory(
    memory: Memory,
    path: str | os.PathLike[str],
    rehearsed: Mapping[str, NDArray[np.floating[Any]]] = _NO_TAKES,
    *,
    new: bool = False,
) -> None:
    """Write a memory to a file, atomically and flushed to disk.

    What was learned while playing is written as takes of its own (``live 1``, ...); loading makes it
    rehearsed.

    Args:
        memory: the memory.
        path: the file.
        rehearsed: poses (T, 22, 4) at 50 Hz of the takes that can be followed, by name.
        new: never overwrite an existing memory, even one written concurrently. Other files are never
            overwritten.

    Raises:
        OptionError: an empty memory, take names of more than a megabyte together, or an existing file that
            is not a memory.
        DeviceError: the file cannot be written, or it exists and ``new`` is set.
    """
    save_moments(*memory.moments(), path, rehearsed, new=new)


def save_moments(
    takes: list[str],
    keys: NDArray[np.int16],
    followed: NDArray[np.uint16],
    origins: NDArray[np.uint32],
    path: str | os.PathLike[str],
    rehearsed: Mapping[str, NDArray[np.floating[Any]]] = _NO_TAKES,
    *,
    new: bool = False,
) -> None:
    """:func:`save_memory` of the arrays that ``Memory.moments`` returned, whole or in pieces."""
    if not len(keys):
        raise OptionError(f"cannot save {path}: nothing is remembered yet")
    metadata = {
        "format": FORMAT,
        "version": str(VERSION),
        "keys": str(KEYS_VERSION),
        "takes": json.dumps(takes),
    }
    poses = [np.zeros((0, _SHAPES["poses"][0]), np.int16)]
    for name in rehearsed:
        stored = (
            rehearsed.stored_poses(name) if isinstance(rehearsed, KeptTakes) else _quantize(rehearsed[name])
        )
        poses.append(np.insert(stored.reshape(len(stored), -1), 0, takes.index(name), axis=1))
    arrays: dict[str, NDArray[Any]] = {"keys": keys, "followed": followed, "origins": origins}
    arrays["poses"] = np.concatenate(poses)
    data = _serialize(arrays, metadata)
    if int.from_bytes(data[:8], "little") > _MAX_HEADER_BYTES:
        raise OptionError(f"cannot save {path}: the names of the takes are longer than a megabyte")
    path = Path(path)
    if not new and path.is_file() and not is_memory(path):
        raise OptionError(f"{path}: already exists and is not a memory")
    write_file(path, data, durable=True, new=new)


def load_memory(path: str | os.PathLike[str], *, capacity: int = 90_000) -> Memory:
    """Read a file of :func:`save_memory`; all of its moments count as rehearsed.

    Args:
        path: the file.
        capacity: most moments held, those of the file and those learned later.

    Raises:
        FormatError: the file is missing, no memory, damaged, of another version, or holds more moments than
            ``capacity``.
        OptionError: an invalid capacity.
    """
    return load_rehearsal(path, capacity=capacity).memory


class KeptTakes(Mapping[str, NDArray[np.float32]]):
    """Poses (T, 22, 4) at 50 Hz of takes, by name; computed from the stored poses at each lookup.

    Args:
        loaders: for each take a function that returns every second pose, int16 (N, 22, 4) in units of
            1/32767; T is 2 N - 1.
    """

    def __init__(self, loaders: Mapping[str, Callable[[], NDArray[np.int16]]]) -> None:
        self._loaders = dict(loaders)

    def stored_poses(self, name: str) -> NDArray[np.int16]:
        """The stored poses of a take, (N, 22, 4) in units of 1/32767."""
        return self._loaders[name]()

    def __getitem__(self, name: str) -> NDArray[np.float32]:
        quats = self.stored_poses(name).astype(np.float32) / _QUAT_SCALE
        return resample(quats, np.zeros((len(quats), 3)), RATE / _POSE_STRIDE, RATE)[0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaders)

    def __len__(self) -> int:
        return len(self._loaders)


class Rehearsal(NamedTuple):
    """Content of a memory file: the memory, the poses (T, 22, 4) at 50 Hz of the takes that can be followed,
    by name, and the SHA-256 of the bytes read, in hexadecimal."""

    memory: Memory
    takes: KeptTakes
    sha256: str


def load_rehearsal(path: str | os.PathLike[str], *, capacity: int = 90_000) -> Rehearsal:
    """As :func:`load_memory`, with everything else in the file; raises the same errors."""
    memory = empty(capacity)
    max_bytes = 8 + _MAX_HEADER_BYTES + capacity * _MOMENT_BYTES
    try:
        with open_file(path) as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise FormatError(f"{path}: cannot be read: {reason(error)}") from None
    header = safetensors_header(data, _MAX_HEADER_BYTES)
    metadata = _metadata(header)
    if metadata.get("format") != FORMAT:
        raise FormatError(f"{path}: is not a memory; pyanticip rehearse writes them")
    moments = _moment_count(header)
    if moments > capacity:
        raise FormatError(f"{path}: holds {moments} moments, and there is room for {capacity}")
    if len(data) > max_bytes:
        raise FormatError(f"{path}: longer than a memory of {capacity} moments can be")
    try:
        takes, arrays = _parse(data, metadata)
        memory.restore(takes, arrays["keys"], arrays["followed"], arrays["origins"])
        return Rehearsal(memory, _poses(takes, arrays["poses"]), hashlib.sha256(data).hexdigest())
    except (safetensors.SafetensorError, MotionError, KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{path}: is a damaged memory: {one_line(error)}") from None


def is_memory(path: Path) -> bool:
    """Whether a file's header says that it is a memory, even a damaged one.

    Raises:
        FormatError: it cannot be read.
    """
    if not path.is_file():
        return False
    with open_file(path) as file:
        header = safetensors_header(file.read(8 + _MAX_HEADER_BYTES), _MAX_HEADER_BYTES)
    return bool(_metadata(header).get("format") == FORMAT)


def _serialize(arrays: Mapping[str, NDArray[Any]], metadata: dict[str, str]) -> memoryview:
    """The bytes of a safetensors file.

    The safetensors package would copy an hour's memory twice while it holds the GIL.
    """
    header: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name, array in arrays.items():
        kind, begin, end = array.dtype, end, end + array.nbytes
        dtype = f"{kind.kind.upper()}{8 * kind.itemsize}"
        header[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    data = np.empty(8 + len(text) + end, np.uint8)
    data[: 8 + len(text)] = np.frombuffer(len(text).to_bytes(8, "little") + text, np.uint8)
    offset = 8 + len(text)
    for array in arrays.values():
        data[offset : offset + array.nbytes] = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
        offset += array.nbytes
    return data.data


def _quantize(quats: NDArray[np.floating[Any]]) -> NDArray[np.int16]:
    """Every second one of poses (T, 22, 4), as int16."""
    return np.rint(_QUAT_SCALE * np.asarray(quats, np.float64)[::_POSE_STRIDE]).astype(np.int16)


def _poses(takes: list[str], rows: NDArray[np.int16]) -> KeptTakes:
    """The takes in rows of a take's index and a pose; a ValueError where a row makes no sense."""
    loaders: dict[str, Callable[[], NDArray[np.int16]]] = {}
    for take in dict.fromkeys(rows[:, 0].tolist()):
        if not 0 <= take < len(takes):
            raise ValueError(f"poses: expected takes 0 to {len(takes) - 1}, got {take}")
        poses = rows[rows[:, 0] == take, 1:].reshape(-1, len(CANONICAL_JOINTS), 4)
        if not (np.linalg.norm(poses.astype(np.float32) / _QUAT_SCALE, axis=-1) > 0.5).all():
            raise ValueError("poses: expected unit quaternions")
        loaders[takes[take]] = partial(np.asarray, poses)
    return KeptTakes(loaders)


def _metadata(header: Mapping[str, Any]) -> dict[str, Any]:
    """The file's own metadata; empty where it has none."""
    metadata = header.get("__metadata__")
    return metadata if isinstance(metadata, dict) else {}


def _moment_count(header: Mapping[str, Any]) -> int:
    """Number of moments that the header declares; 0 where it declares none."""
    with contextlib.suppress(KeyError, TypeError, IndexError):
        count = header["origins"]["shape"][0]
        return count if isinstance(count, int) else 0
    return 0


def _parse(data: bytes, metadata: Mapping[str, Any]) -> tuple[list[str], dict[str, NDArray[Any]]]:
    """Take names and arrays of a whole file, their types and widths checked."""
    arrays = safetensors.numpy.load(data)
    for what, supported in (("version", VERSION), ("keys", KEYS_VERSION)):
        if metadata.get(what) != str(supported):
            raise ValueError(f"expected {what} {supported}, got {metadata.get(what)}; rehearse again")
    if set(arrays) != set(_SHAPES):
        raise ValueError(f"expected {', '.join(_SHAPES)}, got {', '.join(sorted(arrays)) or 'nothing'}")
    for name, (width, kind) in _SHAPES.items():
        array = arrays[name]
        if array.ndim != 2 or array.shape[1] != width or array.dtype != kind:
            raise ValueError(f"{name}: expected {kind} (N, {width}), got {array.dtype} {array.shape}")
    takes = json.loads(metadata["takes"])
    if not isinstance(takes, list) or not all(isinstance(take, str) for take in takes):
        raise ValueError("takes: expected a list of names")
    return takes, arrays
