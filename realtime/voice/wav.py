"""WAV files written as the sound comes, and never half: the name appears when the file is whole."""

from __future__ import annotations

import contextlib
import os
import wave
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt

from pyanticip.errors import DeviceError, ShapeError
from pyanticip.motion.atomic import draft_file, finish_draft

__all__ = ["WavWriter"]

_FULL = {2: 2**15 - 1, 3: 2**23 - 1}


class WavWriter:
    """Writes stereo PCM, 24 bits by default.

    What is written goes into a hidden file beside ``path``; :meth:`close` renames it, :meth:`abandon` removes
    it. Raises :class:`DeviceError` where the file cannot be written.
    """

    def __init__(self, path: str | Path, sample_rate: int, *, bits: int = 24) -> None:
        if bits not in (16, 24):
            raise ShapeError(f"WAV: expected 16 or 24 bits, got {bits}")
        self.path = Path(path)
        self.samples = 0
        self._bytes = bits // 8
        folder = self.path.absolute().parent
        try:
            handle, self._temporary = draft_file(folder / self.path.name)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise DeviceError(f"{self.path}: cannot write into {folder} ({reason})") from None
        self._file = os.fdopen(handle, "wb")
        self._wave: wave.Wave_write = wave.open(self._file, "wb")  # noqa: SIM115
        self._wave.setnchannels(2)
        self._wave.setsampwidth(self._bytes)
        self._wave.setframerate(sample_rate)

    def write(self, block: npt.NDArray[np.float32]) -> None:
        """Append samples, shape (n, 2), -1..1."""
        scaled = np.rint(block.astype(np.float64) * _FULL[self._bytes])
        whole = np.clip(scaled, -_FULL[self._bytes], _FULL[self._bytes]).astype("<i4")
        raw = whole.reshape(-1, 1).view(np.uint8)[:, : self._bytes]
        self._wave.writeframesraw(raw.tobytes())
        self.samples += len(block)

    def close(self) -> None:
        """Finish the file under its name."""
        self._wave.close()
        finish_draft(self._file, self._temporary, self.path)

    def abandon(self) -> None:
        """Give up: nothing is left."""
        with contextlib.suppress(OSError):
            self._wave.close()
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
