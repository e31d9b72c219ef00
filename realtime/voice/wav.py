"""Writes WAV files as the sound comes; the file gets its name only when it is complete."""

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
from pyanticip.motion.atomic import draft_file, finish_draft, write_all

# Bytes and full scale of a 24-bit sample.
_BYTES, _FULL_SCALE = 3, 2**23 - 1
# The RIFF, fmt and data headers, with the sample format.
_HEADER = struct.Struct("<4sI4s4sIHHIIHH4sI")
# Most bytes of samples: lengths have 32 bits, and RIFF's includes the headers after its first 8 bytes.
_MAX_DATA = 2**32 - 1 - (_HEADER.size - 8)


def next_part(path: Path) -> Path:
    """The first of NAME.2.wav, NAME.3.wav ... that does not exist."""
    parts = (path.with_name(f"{path.stem}.{n}{path.suffix}") for n in itertools.count(2))
    return next(part for part in parts if not part.exists())


class WavWriter:
    """Writes 24-bit stereo PCM.

    Samples go into a hidden file next to ``path``; :meth:`close` renames it, :meth:`abandon` removes it. With
    ``new`` it never replaces an existing file: if one has appeared, :attr:`path` becomes the next part's.
    Methods raise :class:`DeviceError` if the file cannot be written, or has no :attr:`room`.
    """

    def __init__(self, path: str | Path, sample_rate: int, *, new: bool = False) -> None:
        self.path = Path(path)
        self._new = new
        self.samples = 0
        self._rate = sample_rate
        folder = self.path.absolute().parent
        try:
            handle, self._temporary = draft_file(folder / self.path.name)
            # Unbuffered, so that on a full disk it is known how much was written.
            self._file = os.fdopen(handle, "wb", buffering=0)
            try:
                write_all(self._file, self._header())
            except OSError:
                self.abandon()
                raise
        except OSError as error:
            raise DeviceError(f"{self.path}: cannot write into {folder} ({reason(error)})") from None

    @property
    def room(self) -> int:
        """Samples that can still be written: a WAV file has at most 4 GiB."""
        return _MAX_DATA // (2 * _BYTES) - self.samples

    def write(self, block: npt.NDArray[np.float32]) -> None:
        """Append samples, shape (n, 2), -1..1; if that fails, none of them."""
        if len(block) > self.room:
            raise DeviceError(f"{self.path}: a WAV file has at most 4 GiB")
        scaled = np.rint(block.astype(np.float64) * _FULL_SCALE)
        integers = np.clip(scaled, -_FULL_SCALE, _FULL_SCALE).astype("<i4")
        raw = integers.reshape(-1, 1).view(np.uint8)[:, :_BYTES]
        try:
            write_all(self._file, raw.tobytes())
        except OSError as error:
            raise DeviceError(f"{self.path}: cannot be written ({reason(error)})") from None
        self.samples += len(block)

    def _header(self) -> bytes:
        frame, length = 2 * _BYTES, self.samples * 2 * _BYTES
        sample_format = (1, 2, self._rate, self._rate * frame, frame, 8 * _BYTES)
        return _HEADER.pack(
            b"RIFF", _HEADER.size - 8 + length, b"WAVE", b"fmt ", 16, *sample_format, b"data", length
        )  # fmt: skip

    def close(self) -> None:
        """Complete the file and give it its name; further calls have no effect."""
        if self._file.closed:
            return
        try:
            self._file.truncate(_HEADER.size + self.samples * 2 * _BYTES)
            self._file.seek(0)
            write_all(self._file, self._header())
            if self._new and self.path.exists():
                self.path = next_part(self.path)
            finish_draft(self._file, self._temporary, self.path, self._new)
        except OSError as error:
            self.abandon()
            raise DeviceError(f"{self.path}: cannot be finished ({reason(error)})") from None

    def abandon(self) -> None:
        """Remove the incomplete file."""
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
