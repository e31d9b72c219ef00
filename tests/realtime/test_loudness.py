"""The meter against the cases of EBU Tech 3341."""

from __future__ import annotations

import numpy as np
import pytest

from pyanticip.errors import OptionError
from realtime.bench.ear import RATE, SILENCE, integrated


def tone(*parts: tuple[float, float]) -> np.ndarray:
    """Seconds of a stereo sine of 1 kHz at a peak level in dBFS."""
    levels = np.concatenate([np.full(round(s * RATE), 10 ** (db / 20)) for s, db in parts])
    sine = levels * np.sin(2 * np.pi * 1000 * np.arange(len(levels)) / RATE)
    return np.stack([sine, sine], axis=1)


@pytest.mark.parametrize(
    ("parts", "lufs"),
    [
        ([(20.0, -23.0)], -23.0),
        ([(20.0, -33.0)], -33.0),
        ([(10.0, -36.0), (60.0, -23.0), (10.0, -36.0)], -23.0),
        ([(10.0, -72.0), (10.0, -36.0), (60.0, -23.0), (10.0, -36.0), (10.0, -72.0)], -23.0),
        ([(20.0, -26.0), (20.1, -20.0), (20.0, -26.0)], -23.0),
    ],
)
def test_the_reference_cases(parts: list[tuple[float, float]], lufs: float) -> None:
    assert integrated(tone(*parts)) == pytest.approx(lufs, abs=0.1)


def test_silence_and_shapes() -> None:
    assert integrated(np.zeros((RATE, 2))) == SILENCE
    assert integrated(np.zeros((100, 2))) == SILENCE
    with pytest.raises(OptionError, match="loudness: expected"):
        integrated(np.zeros((RATE, 2)), 44_100)
