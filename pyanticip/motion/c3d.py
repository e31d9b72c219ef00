"""C3D files: labelled markers of optical systems (Vicon, Qualisys, OptiTrack ...), converted to a body."""

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyanticip.errors import FormatError, OptionError, one_line
from pyanticip.motion import text, units
from pyanticip.motion.clip import Clip
from pyanticip.motion.markers import Subject, body_from_markers, find_subjects

_MAX_HEADER_FRAME = 65_535
"""The greatest frame number that a header can hold."""


def read_c3d(
    path: Path, data: bytes, *, rate: float | None = None, length_unit: str | float | None = None
) -> Clip:
    """The clip of a C3D file's bytes, for the marker sets of Plug-in Gait and CMU (:mod:`.markers`).

    Raises:
        FormatError: The file is damaged, markers are missing (which), or the c3d package is not installed;
            one line with file and reason.
    """
    try:
        import c3d
    except ImportError:
        raise text.fail(path, None, "C3D files need c3d: pip install 'pyanticip[c3d]'") from None
    messages: list[str] = []
    # For damaged files the library raises almost any exception, and warns of what it repairs.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            reader = _reader(c3d.Reader, data)
            points, labels = int(reader.point_used), _labels(path, reader)
            parameter = reader.get("POINT:UNITS")
            unit = "" if parameter is None else parameter.string_value.strip().lower()
            if rate is None:
                rate = units.check_rate(float(reader.point_rate))
                if f"{reader.header.frame_rate:g}" != f"{rate:g}":
                    messages.append(
                        f"POINT:RATE is {rate:g} Hz, its header says {reader.header.frame_rate:g}: if that is"
                        f" wrong, give {units.RATE_HINT}"
                    )
            frames = _count(path, data, reader, points)
            subject, *others = find_subjects(labels[:points])
            columns = list(subject.columns.values())
            rows = [row[columns, :4] for _, row, _ in reader.read_frames(copy=False, analog_transform=False)]
        except FormatError:
            raise
        except OptionError as error:
            raise text.fail(path, None, f"POINT:RATE: {error}") from None
        except UnboundLocalError:
            # Raised by the library for this fault.
            raise text.fail(
                path, None, "is a broken C3D file: its header names no type of processor"
            ) from None
        except Exception as error:
            raise text.fail(path, None, f"is a broken C3D file: {one_line(error)}") from None
    if len(rows) != frames:
        raise text.fail(path, None, f"is cut short: {len(rows)} frames of {frames}")
    if others:
        messages.append(f"more than one performer: the first, {subject.name}, was read")
    if length_unit is None and unit not in units.UNITS:
        messages.append(
            f"its unit of length is {text.quote(unit)}: millimetres are assumed; if that is wrong, give"
            f" {units.UNITS_HINT}"
        )
    scale = (
        units.metres_per_unit(length_unit, 1.0) if length_unit is not None else units.UNITS.get(unit, 0.001)
    )
    points_xyz = np.stack(rows).astype(np.float64)
    body = body_from_markers(path, _markers(subject, points_xyz, scale))
    return Clip(
        body.quats.astype(np.float32),
        body.root.astype(np.float32),
        rate,
        body.skeleton,
        path.stem,
        (*messages, *body.warnings, *units.size_warnings(body.skeleton.reach())),
        source=str(path),
        unit=scale,
    )


def _reader(library: type[Any], data: bytes) -> Any:
    """The library's reader, with a check that accepts more of the files that laboratories write.

    The library requires both rates to be equal, and their quotient whole, to the last bit of a float32, which
    fails at 29.97 or 119.88 Hz. If a release renames the overridden members, such files are refused again.
    """
    overrides = {
        "_check_metadata": lambda self: None,
        # The quotient of the two rates may be rounded down.
        "analog_per_frame": property(lambda self: int(self.header.analog_per_frame)),
    }
    reader: Any = type("_Reader", (library,), overrides)(io.BytesIO(data))
    header = reader.header
    for field_name, in_header, in_parameters in (
        ("point count", header.point_count, reader.point_used),
        ("scale factor", header.scale_factor, reader.point_scale),
        ("analog count", header.analog_count, int(reader.analog_used) * reader.analog_per_frame),
    ):
        if in_header != in_parameters:
            raise ValueError(
                f"inconsistent {field_name}: {in_header} in its header, {in_parameters} in its parameters"
            )
    return reader


def _labels(path: Path, reader: Any) -> list[str]:
    """Names of the points, in order. A parameter holds at most 255; more are in LABELS2 and so on."""
    labels: list[str] = []
    for name in ("POINT:LABELS", *(f"POINT:LABELS{number}" for number in range(2, 257))):
        parameter = reader.get(name)
        if parameter is None:
            break
        if parameter.num_elements > len(parameter.bytes):
            raise text.fail(path, None, f"{name} is cut short")
        labels += [str(label).strip() for label in np.ravel(parameter.string_array)]
    return labels


def _count(path: Path, data: bytes, reader: Any, points: int) -> int:
    """The number of frames, checked against the size of the file before memory is allocated.

    Headers count to 65,535: for longer files that state no more, the size of the data decides.
    """
    first, last = int(reader.first_frame), int(reader.last_frame)
    frames, start = last - first + 1, 512 * (int(reader.header.data_block) - 1)
    if frames < 1 or points < 1:
        raise text.fail(path, None, "has no frame of markers")
    size = 4 if reader.point_scale < 0 else 2
    size *= 4 * points + max(int(reader.analog_used * reader.analog_per_frame), 0)
    available = len(data) - start
    if last == _MAX_HEADER_FRAME and available // size > frames:
        frames = available // size
        if not any(data[start + (frames - 1) * size :]):
            frames -= 1  # padding of the last block
    text.check_size(path, None, frames, 4 * points)
    if frames * size > available:
        raise text.fail(
            path, None, f"is cut short: {available} bytes of {frames} frames, expected {frames * size}"
        )
    if last == _MAX_HEADER_FRAME:
        # Otherwise the library's 16-bit count wraps around.
        reader.header.last_frame = first + frames - 1
    return frames


def _markers(subject: Subject, points: NDArray[np.float64], scale: float) -> dict[str, NDArray[np.float64]]:
    """Positions (T, 3) in metres by marker name; NaN where hidden (a negative residual, or all zeros)."""
    hidden = (points[..., 3] < 0.0) | (points[..., :3] == 0.0).all(axis=-1)
    hidden |= ~(np.abs(points[..., :3]) * scale <= text.MAX_NUMBER).all(axis=-1)
    positions = np.where(hidden[..., None], np.nan, points[..., :3] * scale)
    return {name: positions[:, index] for index, name in enumerate(subject.columns)}
