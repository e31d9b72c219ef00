"""What is played, in a file: exact, whole or not there."""

import wave
from pathlib import Path

import numpy as np
import pytest
from support.full_disk import full_disk

from pyanticip.errors import DeviceError
from realtime.voice.wav import WavWriter


def test_wav_files_are_exact_and_never_half(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    rng = np.random.default_rng(1)
    block = rng.uniform(-1, 1, (1000, 2)).astype(np.float32)
    with WavWriter(path, 48_000) as file:
        file.write(block)
        assert not path.exists()
    with wave.open(str(path)) as file_:
        assert file_.getnframes() == 1000
        raw = np.frombuffer(file_.readframes(1000), np.uint8).reshape(-1, 3)
    whole = np.zeros((2000, 4), np.uint8)
    whole[:, 1:] = raw
    back = whole.view("<i4")[:, 0].reshape(-1, 2) / 2**31
    assert np.abs(back - block).max() < 2.0**-22
    half = WavWriter(tmp_path / "b.wav", 48_000)
    half.write(block)
    half.abandon()
    assert [p.name for p in tmp_path.iterdir()] == ["a.wav"]


def test_a_missing_folder_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match=r"a\.wav: cannot write into .*no such file"):
        WavWriter(tmp_path / "none" / "a.wav", 48_000)


def test_on_a_full_disk_nothing_is_left(tmp_path: Path) -> None:
    with full_disk(), pytest.raises(DeviceError, match=r"a\.wav: cannot write into .*file too large"):
        WavWriter(tmp_path / "a.wav", 48_000)
    wav = WavWriter(tmp_path / "a.wav", 48_000)
    wav._put(b"\0")
    with full_disk(), pytest.raises(DeviceError, match=r"a\.wav: cannot be finished"):
        wav.close()
    assert not list(tmp_path.iterdir())
