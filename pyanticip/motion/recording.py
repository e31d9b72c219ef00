"""Recordings of shows: the ``.anticip`` file, written during the show and read as a stream.

A file is the magic ``ANTICIP\\0``, u16 major and u16 minor version, then records: u32 length, u32 CRC-32C
(little-endian), and a msgpack array ``[type, t_ns, ...]``. ``t_ns`` is in nanoseconds of the monotonic clock;
in the recording of a replay, of the original show's. The types:

==== ======== =====================================================================================
0    header   map: skeleton, rig, model, versions, ``unix_ns`` (the wall clock at ``t_ns``, once)
1    raw      source (its protocol, or protocol@host:port), the datagram as received
2    frame    seq, t_source_ns, quats (binary float32, the 22 canonical joints x 4 w x y z), root (binary
              float32, 3, metres); if the source lacks joints, an integer with a bit, the lowest first, set
              for each joint that it has
3    output   seq, parameters (binary float32), scalars (binary float32), events [[name, strength, seconds]]
4    note     text
5    control  name, arguments [...]: a command that was executed, see :mod:`realtime.control.commands`
==== ======== =====================================================================================

Unknown types and further elements are skipped; a newer major version is refused. A file that ends within a
record (its writer was killed) is read up to there, with a warning. Damaged records, and records with an
invalid time (below 0, 2^62 or more, or more than a day after the previous records), are left out with a
warning, and reading continues at the next record with a valid checksum.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import msgpack
import numpy as np
import numpy.typing as npt

from pyanticip import _core
from pyanticip.errors import FormatError
from pyanticip.motion.atomic import write_all, writing
from pyanticip.motion.recording_file import CONTROL, FRAME, HEADER, NOTE, OUTPUT, RAW, create
from pyanticip.motion.recording_walk import Payload, payloads
from pyanticip.motion.rotations import are_units
from pyanticip.untrusted import open_file
from pyanticip.vocabulary import CANONICAL_JOINTS

MAGIC = _core.recording_header()[:8]

# msgpack has no type annotations.
_packb: Callable[..., bytes] = msgpack.packb

_HEADER_BYTES = 12
_MAX_WARNINGS = 100


class Raw(NamedTuple):
    """A datagram as received from ``source``: its protocol, or protocol@host:port."""

    t_ns: int
    source: str
    data: bytes


class Frame(NamedTuple):
    """A pose of the canonical body on the 50 Hz grid.

    ``quats`` (22, 4) float32 are local unit quaternions w x y z, ``root`` (3,) float32 is in metres; ``mask``
    (22,) bool says which joints the source has, None that it has all.
    """

    t_ns: int
    seq: int
    t_source_ns: int
    quats: npt.NDArray[np.float32]
    root: npt.NDArray[np.float32]
    mask: npt.NDArray[np.bool_] | None = None


class Output(NamedTuple):
    """The output of one frame: parameters (8,), scalars (7,) float32, events (name, strength, seconds ahead).

    A mapping's taught outputs, in 0..1, follow the eight parameters; the header names them. If the model
    reports them, ``field`` is trust and curvature, and ``plan`` the expected codes with their weights.
    """

    t_ns: int
    seq: int
    params: npt.NDArray[np.float32]
    scalars: npt.NDArray[np.float32]
    events: list[tuple[str, float, float]]
    field: tuple[float, ...] = ()
    plan: tuple[tuple[int, float], ...] = ()


class Note(NamedTuple):
    """A remark."""

    t_ns: int
    text: str


class Control(NamedTuple):
    """A command that was executed."""

    t_ns: int
    name: str
    arguments: tuple[object, ...] = ()


Record = Raw | Frame | Output | Note | Control


# -- writing -------------------------------------------------------------------------------------------


def _pack(*fields: object) -> bytes:
    return _core.recording_frame(_packb(fields, use_bin_type=True))


def _floats(values: npt.ArrayLike) -> bytes:
    return np.asarray(values, "<f4").tobytes()


def pack_header(t_ns: int, header: Mapping[str, Any]) -> bytes:
    """The header record. Values that msgpack does not support are written as text, and bytes of a file name
    that are not UTF-8 as question marks."""
    record = HEADER, t_ns, dict(header)
    return _core.recording_frame(_packb(record, use_bin_type=True, default=str, unicode_errors="replace"))


def pack_control(t_ns: int, name: str, arguments: Iterable[object] = ()) -> bytes:
    """The record of a command; arguments are numbers, strings and booleans."""
    return _pack(CONTROL, t_ns, name, list(arguments))


def complete_header(header: Mapping[str, Any], t_ns: int | None = None) -> tuple[int, dict[str, Any]]:
    """The start time (default: now), and ``header`` completed with versions, wall clock and skeleton."""
    versions = {"pyanticip": _core.__version__, "features": _core.FEATURES_VERSION}
    versions.update(header.get("versions") or {})
    body = {
        "names": list(CANONICAL_JOINTS),
        "parents": [int(parent) for parent in _core.CANONICAL_PARENTS],
        "offsets": np.asarray(_core.CANONICAL_OFFSETS, np.float64).round(6).tolist(),
    }
    complete = {**header, "versions": versions, "unix_ns": time.time_ns()}
    if complete.get("skeleton") is None:
        complete["skeleton"] = body
    return time.monotonic_ns() if t_ns is None else t_ns, complete


class Records(ABC):
    """Packs the records of a show and passes them to :meth:`_put`."""

    @abstractmethod
    def _put(self, record: bytes) -> None:
        """Write or send a packed record."""

    @property
    def status_words(self) -> list[str]:
        """Words for the status line: whether a recording is written."""
        return ["recording=yes"]

    def raw(self, t_ns: int, source: str, data: bytes) -> None:
        """Record a datagram as received from ``source`` (its protocol, or protocol@host:port)."""
        self._put(_pack(RAW, t_ns, source, data))

    def frame(
        self,
        t_ns: int,
        seq: int,
        t_source_ns: int,
        quats: npt.ArrayLike,
        root: npt.ArrayLike,
        mask: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        """Record a pose: quats (J, 4), root (3,); mask (J,) bool: joints the source has, None for all."""
        mask_bits: tuple[int, ...] = ()
        if mask is not None and not mask.all():
            mask_bits = (int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little"),)
        self._put(_pack(FRAME, t_ns, seq, t_source_ns, _floats(quats), _floats(root), *mask_bits))

    def output(
        self,
        t_ns: int,
        seq: int,
        params: npt.ArrayLike,
        scalars: npt.ArrayLike,
        events: Iterable[Sequence[Any]] = (),
        field: Sequence[float] = (),
        plan: Sequence[tuple[int, float]] = (),
    ) -> None:
        """Record an output: params (P,), scalars (S,), events (name, strength, seconds ahead), and optionally
        the model's ``field`` (trust and curvature) and ``plan`` (codes and weights)."""
        packed_events = [(str(name), float(strength), float(ahead)) for name, strength, ahead in events]
        model_fields: tuple[object, ...] = ()
        if len(field) or len(plan):
            codes, weights = np.asarray([c for c, _ in plan], "<i4"), [w for _, w in plan]
            model_fields = (_floats(field), codes.tobytes(), _floats(weights))
        self._put(_pack(OUTPUT, t_ns, seq, _floats(params), _floats(scalars), packed_events, *model_fields))

    def control(self, t_ns: int, name: str, arguments: Iterable[object] = ()) -> None:
        """Record a command that was executed."""
        self._put(pack_control(t_ns, name, arguments))

    def note(self, t_ns: int, text: str) -> None:
        """Record a remark."""
        self._put(_pack(NOTE, t_ns, text))


class RecordingWriter(Records):
    """Writes a recording in this process, unbuffered.

    Args:
        path: The file, which must not exist.
        header: What is needed to understand the show later: "rig", "model", "source". Versions and wall clock
            are added, and the canonical body as "skeleton" unless that is given.
        t_ns: Start time, on the clock of the records. Default: now, on the monotonic clock.

    Raises:
        OptionError: The file already exists.
        DeviceError: The file cannot be written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        header: Mapping[str, Any] | None = None,
        *,
        t_ns: int | None = None,
    ) -> None:
        self.path = Path(path)
        first = pack_header(*complete_header(header or {}, t_ns))
        self._file = create(self.path, _core.recording_header() + first)

    def _put(self, record: bytes) -> None:
        self.write(record)

    def write(self, records: bytes) -> None:
        """Append complete packed records. Raises a DeviceError, for example if the disk is full."""
        with writing(self.path):
            write_all(self._file, records)

    def close(self) -> None:
        """Flush everything to the disk and close the file, even if the flush fails with a DeviceError."""
        if not self._file.closed:
            with writing(self.path), self._file:
                os.fsync(self._file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


# -- reading -------------------------------------------------------------------------------------------


def is_recording(data: bytes) -> bool:
    """Whether a file that begins with ``data`` is a recording."""
    return data[: len(MAGIC)] == MAGIC


class Recording:
    """A recording, read as a stream: each iteration reads the file again, holding a few MB at most.

    Attributes:
        path: The file.
        version: (major, minor) of the format.
        header: The header's map; empty if it is damaged or missing.
        start_ns: The header's time, from which the others count; None if it is missing.
        warnings: One line with the offset for each thing that could not be read; complete after an iteration.
        skipped: Number of records of unknown types in the last iteration.
    """

    def __init__(self, path: str | os.PathLike[str], *, strict: bool = False) -> None:
        self.path = Path(path)
        self.warnings: list[str] = []
        self.skipped = 0
        self._strict = strict
        self.header: dict[str, Any] = {}
        self.start_ns: int | None = None
        try:
            with open_file(self.path) as file:
                start = file.read(_HEADER_BYTES)
        except OSError as error:
            raise FormatError(f"{self.path}: cannot be read: {error.strerror}") from None
        try:
            self.version = _core.recording_check(start)
        except FormatError as error:
            raise FormatError(f"{self.path}: {error}") from None
        first = next(self._payloads(), None)
        if first is not None and first.type == HEADER and first.rest and isinstance(first.rest[0], dict):
            self.header = first.rest[0]
            self.start_ns = first.t_ns
            if self._is_foreign():
                line = "the header record names other joints than the canonical 22: no frame is read"
                self._warn(first.offset, line)
        else:
            self._warn(_HEADER_BYTES, "the header record is missing")

    def __iter__(self) -> Iterator[Record]:
        """Every record but the header, in the order written."""
        self.warnings = [line for line in self.warnings if "header record" in line]
        self.skipped = 0
        for payload in self._payloads():
            if payload.type == HEADER or (payload.type == FRAME and self._is_foreign()):
                continue
            try:
                record = _record(payload)
            except (TypeError, ValueError, IndexError) as error:
                self._warn(payload.offset, f"a record of type {payload.type} is invalid: {error}")
                continue
            if record is None:
                self.skipped += 1
            else:
                yield record

    def datagrams(self) -> Iterator[tuple[int, str, bytes]]:
        """(t_ns, source, datagram) of the raw records, in order, as a replay needs them."""
        for record in self:
            if isinstance(record, Raw):
                yield record.t_ns, record.source, record.data

    def frames(self) -> Iterator[Frame]:
        """The frame records: poses on the 50 Hz grid."""
        return (record for record in self if isinstance(record, Frame))

    def _is_foreign(self) -> bool:
        """Whether the frames are of another body. (In older headers a list holds the source's joints.)"""
        body = self.header.get("skeleton")
        return isinstance(body, dict) and body.get("names") not in (None, list(CANONICAL_JOINTS))

    def _warn(self, offset: int, reason: str) -> None:
        line = f"{self.path}: byte {offset}: {reason}"
        if self._strict:
            raise FormatError(line)
        if len(self.warnings) < _MAX_WARNINGS:
            self.warnings.append(line)

    def _payloads(self) -> Iterator[Payload]:
        try:
            with open_file(self.path) as file:
                file.seek(_HEADER_BYTES)
                yield from payloads(file, _HEADER_BYTES, self._warn)
        except OSError as error:
            raise FormatError(f"{self.path}: cannot be read: {error.strerror}") from None


def _as_floats(value: object, columns: int | None = None) -> npt.NDArray[np.float32]:
    if not isinstance(value, bytes):
        raise TypeError("expected binary floats")
    values = np.frombuffer(value, "<f4").astype(np.float32)
    return values if columns is None else values.reshape(-1, columns)


def _seq(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not -(1 << 63) <= value < 1 << 63:
        raise TypeError("expected an integer of 64 bits")
    return value


def _mask(bits: int, joints: int) -> npt.NDArray[np.bool_]:
    return np.array([bits >> j & 1 for j in range(joints)], np.bool_)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("expected text")
    return value


def _field_and_plan(field: object, codes: object, weights: object) -> dict[str, Any]:
    """The last fields of an :class:`Output`."""
    if not isinstance(codes, bytes):
        raise TypeError("expected binary whole numbers")
    code_list = np.frombuffer(codes, "<i4").tolist()
    return {
        "field": tuple(_as_floats(field).tolist()),
        "plan": tuple(zip(code_list, _as_floats(weights).tolist(), strict=True)),
    }


def _record(payload: Payload) -> Record | None:
    """Decode a payload; None for an unknown type. Raises TypeError, ValueError or IndexError."""
    t_ns, rest = payload.t_ns, payload.rest
    if payload.type == RAW:
        if not isinstance(rest[1], bytes):
            raise TypeError("expected a datagram")
        return Raw(t_ns, _text(rest[0]), rest[1])
    if payload.type == FRAME:
        root = _as_floats(rest[3])
        if root.shape != (3,):
            raise ValueError("expected three floats for the root")
        quats = _as_floats(rest[2], 4)
        if len(quats) != len(CANONICAL_JOINTS):
            raise ValueError(f"{len(quats)} joints, expected {len(CANONICAL_JOINTS)}")
        if not (are_units(quats).all() and np.isfinite(root).all()):
            raise ValueError("expected unit quaternions and a finite root")
        mask = None if len(rest) < 5 else _mask(_seq(rest[4]), len(quats))
        return Frame(t_ns, _seq(rest[0]), _seq(rest[1]), quats, root, mask)
    if payload.type == OUTPUT:
        events = [(_text(name), float(strength), float(ahead)) for name, strength, ahead in rest[3]]
        output = Output(t_ns, _seq(rest[0]), _as_floats(rest[1]), _as_floats(rest[2]), events)
        return output if len(rest) < 7 else output._replace(**_field_and_plan(*rest[4:7]))
    if payload.type == NOTE:
        return Note(t_ns, _text(rest[0]))
    if payload.type == CONTROL:
        if not isinstance(rest[1], list):
            raise TypeError("expected a list of arguments")
        return Control(t_ns, _text(rest[0]), tuple(rest[1]))
    return None


def read_recording(path: str | os.PathLike[str], *, strict: bool = False) -> Recording:
    """Open a recording; iterate it to read its records.

    Args:
        path: The file.
        strict: Raise at the first unreadable record instead of adding a line to ``warnings``.

    Raises:
        FormatError: Not a recording, or of a newer major version; with ``strict``, also an unreadable record.
    """
    return Recording(path, strict=strict)
