"""C3D files of any processor and number, byte by byte; the library's own writer knows one of them."""

import struct
from collections.abc import Sequence

import numpy as np

PROCESSORS = {"INTEL": 84, "DEC": 85, "MIPS": 86}


class _Bytes:
    """Numbers as a processor has them."""

    def __init__(self, processor: str) -> None:
        self.is_dec, self.order = processor == "DEC", ">" if processor == "MIPS" else "<"

    def whole(self, *values: int) -> bytes:
        return b"".join(struct.pack(self.order + "H", value & 0xFFFF) for value in values)

    def real(self, values: np.ndarray | float) -> bytes:
        numbers = np.asarray(values, np.float32)
        if not self.is_dec:
            return numbers.astype(self.order + "f4").tobytes()
        bits = (4 * numbers).astype("<f4").view("<u4")
        return ((bits >> 16) | (bits << 16)).astype("<u4").tobytes()


def _group(number: int, name: str) -> tuple[bytes, bytes]:
    return struct.pack("bb", len(name), -number) + name.encode(), b"\0"


def _parameter(number: int, name: str, size: int, lengths: Sequence[int], data: bytes) -> tuple[bytes, bytes]:
    body = struct.pack("bB", size, len(lengths)) + bytes(lengths) + data + b"\0"
    return struct.pack("bb", len(name), number) + name.encode(), body


def raw_c3d(
    labels: Sequence[str],
    points: np.ndarray,
    *,
    processor: str = "INTEL",
    scale: float = -1.0,
    header_scale: float | None = None,
    rate: float = 60.0,
    unit: str = "mm",
    pad: bytes = b" ",
    channels: int = 0,
    header: tuple[int, int] | None = None,
    trial: tuple[int, int] | None = None,
    screen: str = "",
) -> bytes:
    """A C3D file of ``points`` (T, N, 3) in ``unit``; whole numbers where ``scale`` is above 0.

    ``header`` and ``trial`` are the first and the last frame that those name; ``pad`` follows the texts;
    ``screen`` is the axis that is up on a screen.
    """
    number = _Bytes(processor)
    first, last = header or (1, len(points))
    texts = [label.encode().ljust(max(map(len, labels)) + 1, pad) for label in labels]
    entries = [
        _group(1, "POINT"),
        _group(2, "ANALOG"),
        _group(3, "TRIAL"),
        _parameter(1, "USED", 2, [], number.whole(len(labels))),
        _parameter(1, "SCALE", 4, [], number.real(scale)),
        _parameter(1, "RATE", 4, [], number.real(rate)),
        _parameter(1, "UNITS", -1, [len(unit) + 1], unit.encode() + pad),
        _parameter(1, "LABELS", -1, [len(texts[0]), len(texts)], b"".join(texts)),
        _parameter(2, "USED", 2, [], number.whole(channels)),
        _parameter(2, "RATE", 4, [], number.real(rate)),
        _parameter(2, "SCALE", 4, [min(channels, 255)], number.real(np.ones(min(channels, 255)))),
    ]
    for name, frame in zip(("ACTUAL_START_FIELD", "ACTUAL_END_FIELD"), trial or (), strict=False):
        entries.append(_parameter(3, name, 2, [2], number.whole(frame, frame >> 16)))
    if screen:
        entries.append(_parameter(1, "Y_SCREEN", -1, [len(screen) + 1], screen.encode() + pad))
    section = b"".join(name + number.whole(len(body) + 2) + body for name, body in entries) + b"\0\0"
    blocks = -(-(len(section) + 4) // 512)
    start = b"\2P" + number.whole(len(labels), channels, first, last, 10)
    start += number.real(scale if header_scale is None else header_scale)
    start += number.whole(2 + blocks, 1) + number.real(rate)
    data = np.zeros((len(points), len(labels), 4))
    data[..., :3] = points if scale < 0.0 else np.round(points / scale)
    rows = np.hstack((data.reshape(len(points), -1), np.full((len(points), channels), 7.0)))
    frames = number.real(rows) if scale < 0.0 else rows.astype(number.order + "i2").tobytes()
    head = start.ljust(512, b"\0")
    head += (bytes((1, 80, blocks, PROCESSORS[processor])) + section).ljust(512 * blocks, b"\0")
    return head + frames + bytes(-len(frames) % 512)
