"""WAV files written as the sound comes, and never half: the name appears when the file is whole."""

from __future__ import annotations

import contextlib
import itertools
import os
import struct
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt

from pyanticip.errors import DeviceError, reason
from pyanticip.motion.atomic import draft_file, finish_draft

__all__ = ["WavWriter", "next_part"]

# Of a sample, 24 bits.
_BYTES, _FULL = 3, 2**23 - 1
# Of RIFF, fmt and data: their names and lengths, and between them what the samples are.
_HEADER = struct.Struct("<4sI4s4sIHHIIHH4sI")
# Lengths have 32 bits; that of RIFF counts from behind itself.
_MOST = 2**32 - 1 - (_HEADER.size - 8)


def next_part(path: Path) -> Path:
    """The first of NAME.2.wav, NAME.3.wav ... that is not there."""
    parts = (path.with_name(f"{path.stem}.{n}{path.suffix}") for n in itertools.count(2))
    return next(part for part in parts if not part.exists())


class WavWriter:
    """Writes stereo PCM of 24 bits.

    What is written goes into a hidden file beside ``path``; :meth:`close` renames it, :meth:`abandon` removes
    it. A ``new`` one takes the place of none that has come to lie there: its ``path`` is another then, that
    of the next part. Raises :class:`DeviceError` where the file cannot be written, or has no :attr:`room`.
    """

    def __init__(self, path: str | Path, sample_rate: int, *, new: bool = False) -> None:
        self.path = Path(path)
        self._new = new
        self.samples = 0
        self._rate = sample_rate
        folder = self.path.absolute().parent
        try:
            handle, self._temporary = draft_file(folder / self.path.name)
            # Nothing may wait in a buffer: of a full disk it is known what has been written.
            self._file = os.fdopen(handle, "wb", buffering=0)
            try:
                self._put(self._header())
            except OSError:
                self.abandon()
                raise
        except OSError as error:
            raise DeviceError(f"{self.path}: cannot write into {folder} ({reason(error)})") from None

    @property
    def room(self) -> int:
        """Samples that can still be written: a WAV file has at most 4 GiB."""
        return _MOST // (2 * _BYTES) - self.samples

    def write(self, block: npt.NDArray[np.float32]) -> None:
        """Append samples, shape (n, 2), -1..1: all of them, or where that fails none."""
        if len(block) > self.room:
            raise DeviceError(f"{self.path}: a WAV file has at most 4 GiB")
        scaled = np.rint(block.astype(np.float64) * _FULL)
        whole = np.clip(scaled, -_FULL, _FULL).astype("<i4")
        raw = whole.reshape(-1, 1).view(np.uint8)[:, :_BYTES]
        try:
            self._put(raw.tobytes())
        except OSError as error:
            raise DeviceError(f"{self.path}: cannot be written ({reason(error)})") from None
        self.samples += len(block)

    def _put(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[self._file.write(left) :]

    def _header(self) -> bytes:
        frame, length = 2 * _BYTES, self.samples * 2 * _BYTES
        form = (1, 2, self._rate, self._rate * frame, frame, 8 * _BYTES)
        return _HEADER.pack(
            b"RIFF", _HEADER.size - 8 + length, b"WAVE", b"fmt ", 16, *form, b"data", length
        )  # fmt: skip

    def close(self) -> None:
        """Finish the file under its name; done once, it does nothing."""
        if self._file.closed:
            return
        try:
            self._file.truncate(_HEADER.size + self.samples * 2 * _BYTES)
            self._file.seek(0)
            self._put(self._header())
            if self._new and self.path.exists():
                self.path = next_part(self.path)
            finish_draft(self._file, self._temporary, self.path, self._new)
        except OSError as error:
            self.abandon()
            raise DeviceError(f"{self.path}: cannot be finished ({reason(error)})") from None

    def abandon(self) -> None:
        """Give up: nothing is left."""
        with contextlib.suppress(OSError):
            self._file.close()
        self._temporary.unlink(missing_ok=True)

    def __enter__(self) -> WavWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()
