"""C3D files: labelled markers of optical systems (Vicon, Qualisys, OptiTrack ...), converted to a body."""

import io
import warnings
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pyanticip.errors import FormatError, OptionError, one_line
from pyanticip.motion import text, units
from pyanticip.motion.clip import Clip
from pyanticip.motion.markers import Subject, body_from_markers, find_subjects

_SPELT_OUT = {"millimet": "mm", "centimet": "cm", "met": "m", "inch": "in"}
"""First letters of the units of length that are written out, in British or American spelling."""
_BLOCK = 512
"""The parts of a file begin at multiples of so many bytes."""
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
            unit = _unit(reader.get("POINT:UNITS"))
            vertical = reader.get("POINT:Y_SCREEN")
            up = "z" if vertical is not None and _plain(vertical.string_value).upper() == "+Z" else "y"
            if rate is None:
                rate = units.check_rate(float(reader.point_rate))
                if f"{reader.header.frame_rate:g}" != f"{rate:g}":
                    messages.append(
                        f"POINT:RATE is {rate:g} Hz, its header says {reader.header.frame_rate:g}: if that is"
                        f" wrong, give {units.RATE_HINT}"
                    )
            subject, *others = find_subjects(_labels(path, reader)[: int(reader.point_used)])
            points = _points(path, data, reader, list(subject.columns.values()))
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
    body = body_from_markers(path, _markers(subject, points, scale))
    return Clip(
        body.quats.astype(np.float32),
        body.root.astype(np.float32),
        rate,
        body.skeleton,
        path.stem,
        (*messages, *body.warnings, *units.size_warnings(body.skeleton.reach())),
        source=str(path),
        up=up,
        unit=scale,
    )


def _reader(library: type[Any], data: bytes) -> Any:
    """The library's reader, of which only the header and the parameters are used.

    The library requires both rates to be equal, and their quotient whole, to the last bit of a float32, which
    fails at 29.97 or 119.88 Hz. If a release renames the overridden member, such files are refused again.
    """
    reader: Any = type("_Reader", (library,), {"_check_metadata": lambda self: None})(io.BytesIO(data))
    header, analog = reader.header, reader.get("ANALOG:USED")
    expected = header.analog_count if analog is None else int(analog.uint16_value) * header.analog_per_frame
    # Of real coordinates only the sign of the scale counts.
    scales = [-1.0 if scale < 0.0 else scale for scale in (header.scale_factor, reader.point_scale)]
    for field_name, in_header, in_parameters in (
        ("point count", header.point_count, reader.point_used),
        ("scale factor", *scales),
        ("analog count", header.analog_count, expected),
    ):
        if in_header != in_parameters:
            raise ValueError(
                f"inconsistent {field_name}: {in_header} in its header, {in_parameters} in its parameters"
            )
    return reader


def _plain(words: str) -> str:
    """A text of the file without the blanks or zeros at its end."""
    return words.partition("\0")[0].strip()


def _unit(parameter: Any) -> str:
    """The unit of length, a key of ``units.UNITS`` if it is known."""
    unit = "" if parameter is None else _plain(parameter.string_value).lower()
    return next((name for start, name in _SPELT_OUT.items() if unit.startswith(start)), unit)


def _labels(path: Path, reader: Any) -> list[str]:
    """Names of the points, in order. A parameter holds at most 255; more are in LABELS2 and so on."""
    labels: list[str] = []
    for name in ("POINT:LABELS", *(f"POINT:LABELS{number}" for number in range(2, 257))):
        parameter = reader.get(name)
        if parameter is None:
            break
        if parameter.num_elements > len(parameter.bytes):
            raise text.fail(path, None, f"{name} is cut short")
        labels += [_plain(str(label)) for label in np.ravel(parameter.string_array)]
    return labels


def _points(path: Path, data: bytes, reader: Any, columns: list[int]) -> NDArray[np.float64]:
    """(T, N, 4): x, y, z and residual of the points ``columns`` in file units; below 0 it is hidden."""
    header, points, scale = reader.header, int(reader.point_used), float(reader.point_scale)
    # The rest of a frame are samples of analog channels.
    width, number = 4 * points + header.analog_count, np.dtype("f4" if scale < 0.0 else "i2")
    frames, start = _count(path, data, reader, width * number.itemsize), _BLOCK * (header.data_block - 1)
    text.check_size(path, None, frames, 4 * points)
    number = number.newbyteorder(">" if reader.proc_type == "MIPS" else "<")
    rows = np.frombuffer(data, number, frames * width, start).reshape(frames, width)
    words = rows[:, [4 * column + word for column in columns for word in range(4)]]
    if scale < 0.0 and reader.proc_type == "DEC":
        # The halves of a number are exchanged, and its exponent is greater by two.
        bits = words.view("<u4")
        words = ((bits >> 16) | (bits << 16)).view("<f4") / np.float32(4.0)
    values = words.reshape(frames, len(columns), 4).astype(np.float32)
    if scale >= 0.0:
        values[..., :3] *= np.float32(scale)
    return values.astype(np.float64)


def _count(path: Path, data: bytes, reader: Any, size: int) -> int:
    """The number of frames, of ``size`` bytes each, checked against the file before memory is allocated.

    The header counts to 65,535, so the greatest number that the file states counts, if the file has so many
    frames. If it states no more than that, the size of the data decides.
    """
    header, start = reader.header, _BLOCK * (int(reader.header.data_block) - 1)
    frames, available = int(header.last_frame) - int(header.first_frame) + 1, max(len(data) - start, 0)
    trial = [_frames_in(reader, f"TRIAL:ACTUAL_{end}_FIELD") for end in ("START", "END")]
    points = [_frames_in(reader, f"POINT:{name}") for name in ("LONG_FRAMES", "FRAMES")]
    stated = [trial[1] - max(trial[0], 1) + 1, *points]
    stated = [number for number in stated if max(frames, 0) < number != _MAX_HEADER_FRAME]
    if reader.point_used < 1 or start < _BLOCK or (frames < 1 and not stated):
        raise text.fail(path, None, "has no frame of markers")
    is_full = header.last_frame == _MAX_HEADER_FRAME
    if fitting := [number for number in stated if number * size <= available]:
        frames = max(fitting)
    elif stated and (is_full or frames < 1):
        frames = min(stated)
    elif is_full and available // size > frames:
        frames = available // size
        for _ in range((_BLOCK - 1) // size):
            frames -= not any(data[start + (frames - 1) * size :])  # padding of the last block
    if frames * size > available:
        raise text.fail(
            path, None, f"is cut short: {available} bytes of {frames} frames, expected {frames * size}"
        )
    return frames


def _frames_in(reader: Any, name: str) -> int:
    """The number of frames in a parameter: real, or whole in halves, the lower first; 0 without one."""
    parameter = reader.get(name)
    if parameter is None or parameter.total_bytes < 2:
        return 0
    if parameter.bytes_per_element == 4:
        return int(parameter.float_value)
    order: Literal["big", "little"] = "big" if reader.proc_type == "MIPS" else "little"
    low, high = (int.from_bytes(parameter.bytes[start : start + 2], order) for start in (0, 2))
    return int(low + (high << 16))


def _markers(subject: Subject, points: NDArray[np.float64], scale: float) -> dict[str, NDArray[np.float64]]:
    """Positions (T, 3) in metres by marker name; NaN where hidden (no residual above -1, or all zeros)."""
    hidden = ~(points[..., 3] > -1.0) | (points[..., :3] == 0.0).all(axis=-1)
    hidden |= ~(np.abs(points[..., :3]) * scale <= text.MAX_NUMBER).all(axis=-1)
    positions = np.where(hidden[..., None], np.nan, points[..., :3] * scale)
    return {name: positions[:, index] for index, name in enumerate(subject.columns)}
