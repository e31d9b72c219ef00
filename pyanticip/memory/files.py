"""A memory as a file, ``piece.memory``: safetensors, never pickle, checked before it is used."""

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
from pyanticip.untrusted import open_file, parse_json
from pyanticip.vocabulary import CANONICAL_JOINTS, PARAMETERS, RATE

FORMAT: Final = "pyanticip-memory"
VERSION: Final = 1
"""Of the file; the keys inside have a version of their own."""

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})

FOLLOWED: Final = 3 * len(PARAMETERS)
_SHAPES: Final[dict[str, tuple[int, np.dtype[Any]]]] = {
    "keys": (KEY_SIZE, np.dtype(np.int16)),
    "followed": (FOLLOWED, np.dtype(np.uint16)),
    "origins": (2, np.dtype(np.uint32)),
    "poses": (1 + 4 * len(CANONICAL_JOINTS), np.dtype(np.int16)),
}
_MOMENT_BYTES: Final = sum(width * kind.itemsize for width, kind in _SHAPES.values())
_HEADER_BYTES: Final = 1 << 20
"""The longest header that is read: what the arrays are, and the names of the takes."""
_UNIT: Final = 32767
_EVERY: Final = 2
"""Of the 50 Hz frames of a take every second pose is kept."""


def save_memory(
    memory: Memory,
    path: str | os.PathLike[str],
    rehearsed: Mapping[str, NDArray[np.floating[Any]]] = NOTHING,
    *,
    new: bool = False,
) -> None:
    """Write everything that ``memory`` holds; atomic, and on the disk when this returns.

    What was learned while playing is written as takes of its own (``live 1``, ...); loaded, it is rehearsed.

    Args:
        memory: what is remembered.
        path: the file.
        rehearsed: poses (T, 22, 4) at 50 Hz of takes that can be followed, by name.
        new: leave a memory that lies there, also one that came meanwhile; any other file is always left.

    Raises:
        OptionError: an empty memory, names of takes that are longer than a megabyte together, or a file that
            is there and is no memory.
        DeviceError: the file cannot be written, or it is there and should be ``new``.
    """
    save_moments(*memory.moments(), path, rehearsed, new=new)


def save_moments(
    takes: list[str],
    keys: NDArray[np.int16],
    followed: NDArray[np.uint16],
    origins: NDArray[np.uint32],
    path: str | os.PathLike[str],
    rehearsed: Mapping[str, NDArray[np.floating[Any]]] = NOTHING,
    *,
    new: bool = False,
) -> None:
    """:func:`save_memory` of what ``Memory.moments`` gave, at once or in pieces."""
    if not len(keys):
        raise OptionError(f"cannot save {path}: nothing is remembered yet")
    about = {"format": FORMAT, "version": str(VERSION), "keys": str(KEYS_VERSION), "takes": json.dumps(takes)}
    poses = [np.zeros((0, _SHAPES["poses"][0]), np.int16)]
    for name in rehearsed:
        whole = rehearsed.kept(name) if isinstance(rehearsed, KeptTakes) else _whole(rehearsed[name])
        poses.append(np.insert(whole.reshape(len(whole), -1), 0, takes.index(name), axis=1))
    arrays: dict[str, NDArray[Any]] = {"keys": keys, "followed": followed, "origins": origins}
    arrays["poses"] = np.concatenate(poses)
    data = _packed(arrays, about)
    if _header_length(data) > _HEADER_BYTES:
        raise OptionError(f"cannot save {path}: the names of the takes are longer than a megabyte")
    path = Path(path)
    if not new and path.is_file() and not is_memory(path):
        raise OptionError(f"{path}: exists already and is no memory")
    write_file(path, data, durable=True, new=new)


def load_memory(path: str | os.PathLike[str], *, capacity: int = 90_000) -> Memory:
    """Read what :func:`save_memory` wrote; all of it counts as rehearsed.

    Args:
        path: the file.
        capacity: moments there is room for, those of the file and those to come.

    Raises:
        FormatError: no such file, another one, a damaged one, one of another version, or one that holds more
            moments than there is room for.
        OptionError: a capacity that is no number of moments.
    """
    return load_rehearsal(path, capacity=capacity).memory


class KeptTakes(Mapping[str, NDArray[np.float32]]):
    """Poses (T, 22, 4) at 50 Hz of takes, by name; each is made anew from what is kept when it is asked for.

    Args:
        kept: for each take what gives every second pose, int16 (N, 22, 4) in 1/32767; T is 2 N - 1.
    """

    def __init__(self, kept: Mapping[str, Callable[[], NDArray[np.int16]]]) -> None:
        self._kept = dict(kept)

    def kept(self, name: str) -> NDArray[np.int16]:
        """What is kept of a take, (N, 22, 4) in 1/32767."""
        return self._kept[name]()

    def __getitem__(self, name: str) -> NDArray[np.float32]:
        quats = self.kept(name).astype(np.float32) / _UNIT
        return resample(quats, np.zeros((len(quats), 3)), RATE / _EVERY, RATE)[0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)


class Rehearsal(NamedTuple):
    """What a file holds: the memory, poses (T, 22, 4) at 50 Hz of the takes that can be followed, by name,
    and the SHA-256 of the very bytes that were read, in hexadecimal."""

    memory: Memory
    takes: KeptTakes
    sha256: str


def load_rehearsal(path: str | os.PathLike[str], *, capacity: int = 90_000) -> Rehearsal:
    """:func:`load_memory`, with all that the file holds. Raises as that does."""
    memory = empty(capacity)
    longest = 8 + _HEADER_BYTES + capacity * _MOMENT_BYTES
    try:
        with open_file(path) as file:
            data = file.read(longest + 1)
    except OSError as error:
        raise FormatError(f"{path}: cannot be read: {reason(error)}") from None
    header = _header(data)
    about = _about(header)
    if about.get("format") != FORMAT:
        raise FormatError(f"{path}: is no memory; pyanticip rehearse writes them")
    held = _moments(header)
    if held > capacity:
        raise FormatError(f"{path}: holds {held} moments, and there is room for {capacity}")
    if len(data) > longest:
        raise FormatError(f"{path}: longer than a memory of {capacity} moments can be")
    try:
        takes, arrays = _parse(data, about)
        memory.restore(takes, arrays["keys"], arrays["followed"], arrays["origins"])
        return Rehearsal(memory, _poses(takes, arrays["poses"]), hashlib.sha256(data).hexdigest())
    except (safetensors.SafetensorError, MotionError, KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{path}: is a damaged memory: {one_line(error)}") from None


def is_memory(path: Path) -> bool:
    """Whether a file says that it is one, be it damaged. Raises a FormatError: it cannot be read."""
    if not path.is_file():
        return False
    with open_file(path) as file:
        return bool(_about(_header(file.read(8 + _HEADER_BYTES))).get("format") == FORMAT)


def _packed(arrays: Mapping[str, NDArray[Any]], about: dict[str, str]) -> memoryview:
    """A safetensors file. The package itself would copy an hour twice while nobody else has his turn."""
    header: dict[str, Any] = {"__metadata__": about}
    end = 0
    for name, array in arrays.items():
        kind, begin, end = array.dtype, end, end + array.nbytes
        told = f"{kind.kind.upper()}{8 * kind.itemsize}"
        header[name] = {"dtype": told, "shape": array.shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    data = np.empty(8 + len(text) + end, np.uint8)
    data[: 8 + len(text)] = np.frombuffer(len(text).to_bytes(8, "little") + text, np.uint8)
    at = 8 + len(text)
    for array in arrays.values():
        data[at : at + array.nbytes] = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
        at += array.nbytes
    return data.data


def _whole(quats: NDArray[np.floating[Any]]) -> NDArray[np.int16]:
    """What is kept of poses (T, 22, 4): every second one, in whole numbers."""
    return np.rint(_UNIT * np.asarray(quats, np.float64)[::_EVERY]).astype(np.int16)


def _poses(takes: list[str], rows: NDArray[np.int16]) -> KeptTakes:
    found: dict[str, Callable[[], NDArray[np.int16]]] = {}
    for take in dict.fromkeys(rows[:, 0].tolist()):
        if not 0 <= take < len(takes):
            raise ValueError(f"poses: expected takes 0 to {len(takes) - 1}, given {take}")
        kept = rows[rows[:, 0] == take, 1:].reshape(-1, len(CANONICAL_JOINTS), 4)
        if not (np.linalg.norm(kept.astype(np.float32) / _UNIT, axis=-1) > 0.5).all():
            raise ValueError("poses: expected unit quaternions")
        found[takes[take]] = partial(np.asarray, kept)
    return KeptTakes(found)


def _header_length(data: bytes | memoryview) -> int:
    return int.from_bytes(data[:8], "little")


def _header(data: bytes) -> dict[str, Any]:
    """The header of a file, of which the end may be missing; nothing of what is no safetensors file."""
    with contextlib.suppress(MotionError):
        header = parse_json(data[8 : 8 + min(_header_length(data), _HEADER_BYTES)], "")
        return header if isinstance(header, dict) else {}
    return {}


def _about(header: Mapping[str, Any]) -> dict[str, Any]:
    """What a file says of itself; nothing where it says none."""
    about = header.get("__metadata__")
    return about if isinstance(about, dict) else {}


def _moments(header: Mapping[str, Any]) -> int:
    """How many moments a file says that it holds; 0: it does not say."""
    with contextlib.suppress(KeyError, TypeError, IndexError):
        held = header["origins"]["shape"][0]
        return held if isinstance(held, int) else 0
    return 0


def _parse(data: bytes, about: Mapping[str, Any]) -> tuple[list[str], dict[str, NDArray[Any]]]:
    """Names of takes and arrays of the right types and widths, of a whole file."""
    arrays = safetensors.numpy.load(data)
    for what, known in (("version", VERSION), ("keys", KEYS_VERSION)):
        if about.get(what) != str(known):
            raise ValueError(f"expected {what} {known}, given {about.get(what)}; rehearse again")
    if set(arrays) != set(_SHAPES):
        raise ValueError(f"expected {', '.join(_SHAPES)}, given {', '.join(sorted(arrays)) or 'nothing'}")
    for name, (width, kind) in _SHAPES.items():
        array = arrays[name]
        if array.ndim != 2 or array.shape[1] != width or array.dtype != kind:
            raise ValueError(f"{name}: expected {kind} (N, {width}), given {array.dtype} {array.shape}")
    takes = json.loads(about["takes"])
    if not isinstance(takes, list) or not all(isinstance(take, str) for take in takes):
        raise ValueError("takes: expected a list of names")
    return takes, arrays
