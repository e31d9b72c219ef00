"""Target values over time, from CSV and npz files and from recordings, on the 50 Hz grid of a take.

A file of curves is a table: seconds since the take's first frame, and a column per output in the output's own
unit. Curves are linear between their points, and constant before the first and after the last.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pyanticip.errors import FormatError, MotionError
from pyanticip.motion.recording import Note, Output, is_recording, read_recording
from pyanticip.teach.outputs import parse_values
from pyanticip.untrusted import BROKEN_ARCHIVE, check_unpacked, open_file, read_file
from pyanticip.vocabulary import PARAMETERS, RATE

F64 = npt.NDArray[np.float64]
Curves = Mapping[str, tuple[F64, F64]]
"""Per column: times (N,) in seconds, ascending; values (N,), finite."""

_MAX_BYTES = 64 << 20
_TIME_COLUMNS = ("t", "time", "seconds")


def load_curves(path: str | os.PathLike[str]) -> dict[str, tuple[F64, F64]]:
    """The curves of a file.

    * CSV: a header with ``t`` (or ``time``, ``seconds``) and names; an empty cell adds no point to its curve;
    * npz: ``t`` (N,) and an array (N,) per name, or the output of ``pyanticip render --out OUT.npz``;
    * ``.anticip``: the values sent in the recording, or, where it has notes like ``cutoff=800, mix=.2``,
      those: each holds until the next.

    Raises:
        FormatError: anything else; the message has file, line and reason.
    """
    file = Path(path)
    with open_file(file) as opened:
        if is_recording(opened.read(16)):
            return _checked(file, _from_recording(file))
    data = read_file(file, _MAX_BYTES, what="a file of curves")
    return _checked(file, _from_npz(file, data) if data.startswith(b"PK\x03\x04") else _from_csv(file, data))


def sample(curve: tuple[F64, F64], frames: int) -> F64:
    """A curve at the times of a take's frames, 0, 20, 40 ms ...: (frames,)."""
    return np.interp(np.arange(frames) / RATE, *curve)


def _checked(file: Path, curves: dict[str, tuple[F64, F64]]) -> dict[str, tuple[F64, F64]]:
    if not curves:
        raise FormatError(f"{file}: holds no curve: expected a column t and one per output")
    for name, (times, values) in curves.items():
        if len(times) == 0:
            raise FormatError(f"{file}: column {name!r} has no value")
        if not (np.isfinite(times).all() and np.isfinite(values).all()):
            raise FormatError(f"{file}: column {name!r} must hold finite numbers")
        if (np.diff(times) < 0).any():
            raise FormatError(f"{file}: the times of {name!r} go back")
    return curves


def _from_csv(file: Path, data: bytes) -> dict[str, tuple[F64, F64]]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FormatError(f"{file}: is neither a CSV table in UTF-8 nor an npz archive") from None
    rows = csv.reader(io.StringIO(text), skipinitialspace=True)
    try:
        header = [name.strip() for name in next(rows, [])]
        time_index = next((header.index(name) for name in _TIME_COLUMNS if name in header), None)
        if time_index is None or len(header) < 2:
            raise FormatError(
                f"{file}:1: expected a header with t and a column per output, got {str(header[:5])[:100]}"
            )
        if len(set(header)) != len(header):
            raise FormatError(f"{file}:1: a column appears twice")
        time_name = header[time_index]
        points: dict[str, list[tuple[float, float]]] = {name: [] for name in header if name != time_name}
        for row in rows:
            if not any(cell.strip() for cell in row):
                continue
            if len(row) != len(header):
                raise FormatError(f"{file}:{rows.line_num}: expected {len(header)} cells, got {len(row)}")
            try:
                t = float(row[time_index])
                for name, cell in zip(header, row, strict=True):
                    if name != time_name and cell.strip():
                        points[name].append((t, float(cell)))
            except ValueError as error:
                raise FormatError(f"{file}:{rows.line_num}: {error}") from None
    except csv.Error as error:
        raise FormatError(f"{file}:{rows.line_num}: {error}") from None
    # A column without any value was left empty by the program that wrote it, as render does with events.
    return {name: _curve(column) for name, column in points.items() if column}


def _curve(points: list[tuple[float, float]]) -> tuple[F64, F64]:
    """Times and values of points, as two arrays."""
    table = np.array(points, np.float64).reshape(-1, 2)
    return table[:, 0].copy(), table[:, 1].copy()


def _from_npz(file: Path, data: bytes) -> dict[str, tuple[F64, F64]]:
    import zipfile

    arrays: dict[str, npt.NDArray[np.generic]] = {}
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
        check_unpacked(file, archive, len(data))
        with np.load(io.BytesIO(data), allow_pickle=False) as loaded:
            # A member that is no array is loaded as bytes.
            arrays = {name: np.asarray(loaded[name]) for name in loaded.files}
    except FormatError:
        raise
    except BROKEN_ARCHIVE as error:
        raise FormatError(f"{file}: is a broken npz archive ({' '.join(str(error).split())[:100]})") from None
    times = next((arrays[name] for name in _TIME_COLUMNS if name in arrays), None)
    if times is None or times.ndim != 1 or not np.issubdtype(times.dtype, np.number):
        raise FormatError(f"{file}: expected an array t (N,) in seconds")
    t = times.astype(np.float64)
    if "params" in arrays and arrays["params"].shape == (len(t), len(PARAMETERS)):
        table = arrays["params"].astype(np.float64)
        curves = {name: (t, table[:, i].copy()) for i, name in enumerate(PARAMETERS)}
        names = [str(name) for name in arrays.get("outputs", np.empty(0, "U1")).tolist()]
        if names and arrays.get("taught", np.empty(0)).shape == (len(t), len(names)):
            taught = arrays["taught"].astype(np.float64)
            curves |= {name: (t, taught[:, i].copy()) for i, name in enumerate(names)}
        return curves
    return {
        name: (t, array.astype(np.float64))
        for name, array in arrays.items()
        if name not in _TIME_COLUMNS and array.shape == t.shape and np.issubdtype(array.dtype, np.number)
    }


def _from_recording(file: Path) -> dict[str, tuple[F64, F64]]:
    recording = read_recording(file)
    # Times count from the recording's first frame, which is the take's too.
    begin_ns = next((frame.t_ns for frame in recording.frames()), None)
    if begin_ns is None:
        raise FormatError(f"{file}: holds no frame of motion")
    notes: dict[str, list[tuple[float, float]]] = {}
    for note in (record for record in recording if isinstance(record, Note)):
        try:
            values = parse_values(note.text)
        except MotionError:
            continue
        seconds = (note.t_ns - begin_ns) / 1e9
        for name, value in values.items():
            points = notes.setdefault(name, [])
            if points:
                # The previous value holds until just before this note.
                points.append((max(seconds - 1e-6, points[-1][0]), points[-1][1]))
            points.append((seconds, value))
    if notes:
        return {name: _curve(points) for name, points in notes.items()}
    outputs = [record for record in recording if isinstance(record, Output)]
    if not outputs or len(outputs[0].params) < len(PARAMETERS):
        raise FormatError(f"{file}: holds neither outputs nor notes such as 'brightness=.8'")
    t = np.array([(output.t_ns - begin_ns) / 1e9 for output in outputs])
    table = np.array([output.params[: len(PARAMETERS)] for output in outputs], np.float64)
    return {name: (t, table[:, i].copy()) for i, name in enumerate(PARAMETERS)}
