"""C3D files: labelled markers of optical systems (Vicon, Qualisys, OptiTrack and others), as a body."""

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyanticip.errors import FormatError, OptionError, one_line
from pyanticip.motion import text, units
from pyanticip.motion.clip import Clip
from pyanticip.motion.markers import Subject, body_of_markers, find_subjects

_MOST = 65_535
"""The last frame that a header can tell."""


def read_c3d(
    path: Path, data: bytes, *, rate: float | None = None, length_unit: str | float | None = None
) -> Clip:
    """The body that wears the markers of a C3D file, Plug-in Gait's or CMU's (:mod:`.markers`).

    Raises:
        FormatError: One line with file and reason: damaged, no such markers (which), or the reader is not
            installed.
    """
    try:
        import c3d
    except ImportError:
        raise text.fail(path, None, "C3D files need c3d: pip install 'pyanticip[c3d]'") from None
    told: list[str] = []
    # A damaged file makes this library raise nearly anything, and warn of what it mends.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            reader = _reader(c3d.Reader, data)
            points, labels = int(reader.point_used), _labels(path, reader)
            said = reader.get("POINT:UNITS")
            unit = "" if said is None else said.string_value.strip().lower()
            if rate is None:
                rate = units.check_rate(float(reader.point_rate))
                if f"{reader.header.frame_rate:g}" != f"{rate:g}":
                    told.append(
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
            # What the library makes of it.
            raise text.fail(
                path, None, "is a broken C3D file: its header names no type of processor"
            ) from None
        except Exception as error:
            raise text.fail(path, None, f"is a broken C3D file: {one_line(error)}") from None
    if len(rows) != frames:
        raise text.fail(path, None, f"is cut short: {len(rows)} frames of {frames}")
    if others:
        told.append(f"more than one performer: the first, {subject.name}, was read")
    if length_unit is None and unit not in units.UNITS:
        told.append(
            f"its unit of length is {text.show(unit)}: millimetres are taken; if that is wrong, give"
            f" {units.UNITS_HINT}"
        )
    scale = (
        units.metres_per_unit(length_unit, 1.0) if length_unit is not None else units.UNITS.get(unit, 0.001)
    )
    places = np.stack(rows).astype(np.float64)
    found = body_of_markers(path, _markers(subject, places, scale))
    return Clip(
        found.quats.astype(np.float32),
        found.root.astype(np.float32),
        rate,
        found.skeleton,
        path.stem,
        (*told, *found.warnings, *units.size_doubts(found.skeleton.reach())),
        source=str(path),
        unit=scale,
    )


def _reader(library: type[Any], data: bytes) -> Any:
    """The library's reader, which takes more of what laboratories write.

    It wants rates to be equal, and their quotient whole, to the last bit of a float32: at 29.97 or 119.88 Hz
    they are not. A release that asks otherwise refuses such files, and misreads none.
    """
    whole = {
        "_check_metadata": lambda self: None,
        # The quotient of the two rates may be rounded down.
        "analog_per_frame": property(lambda self: int(self.header.analog_per_frame)),
    }
    reader: Any = type("_Reader", (library,), whole)(io.BytesIO(data))
    header = reader.header
    for what, said, meant in (
        ("point count", header.point_count, reader.point_used),
        ("scale factor", header.scale_factor, reader.point_scale),
        ("analog count", header.analog_count, int(reader.analog_used) * reader.analog_per_frame),
    ):
        if said != meant:
            raise ValueError(f"inconsistent {what}: {said} in its header, {meant} in its parameters")
    return reader


def _labels(path: Path, reader: Any) -> list[str]:
    """Names of the points, in order. There are 255 in a parameter at most: more stand in a second one."""
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
    """How many frames there are, for which the bytes must be there before anything is made of it.

    Its numbers end at 65,535: where nothing tells of more, there are as many as there are bytes for.
    """
    first, last = int(reader.first_frame), int(reader.last_frame)
    frames, start = last - first + 1, 512 * (int(reader.header.data_block) - 1)
    if frames < 1 or points < 1:
        raise text.fail(path, None, "has no frame of markers")
    size = 4 if reader.point_scale < 0 else 2
    size *= 4 * points + max(int(reader.analog_used * reader.analog_per_frame), 0)
    there = len(data) - start
    if last == _MOST and there // size > frames:
        frames = there // size
        if not any(data[start + (frames - 1) * size :]):
            frames -= 1  # what fills the last block
    text.check_size(path, None, frames, 4 * points)
    if frames * size > there:
        raise text.fail(
            path, None, f"is cut short: {there} bytes of {frames} frames, expected {frames * size}"
        )
    if last == _MOST:
        # Otherwise the library counts in 16 bits, and wraps.
        reader.header.last_frame = first + frames - 1
    return frames


def _markers(subject: Subject, places: NDArray[np.float64], scale: float) -> dict[str, NDArray[np.float64]]:
    """Markers (T, 3) in metres by their name; NaN where one was hidden: so says its residual, or its zero."""
    hidden = (places[..., 3] < 0.0) | (places[..., :3] == 0.0).all(axis=-1)
    hidden |= ~(np.abs(places[..., :3]) * scale <= text.MAX_NUMBER).all(axis=-1)
    seen = np.where(hidden[..., None], np.nan, places[..., :3] * scale)
    return {name: seen[:, index] for index, name in enumerate(subject.columns)}
