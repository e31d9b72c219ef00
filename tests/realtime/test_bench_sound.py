"""`bench sound`: a lag that was made is found, and the whole way is measured."""

import numpy as np
import pytest
from scipy.signal import resample

from pyanticip.errors import OptionError
from realtime.bench.sound import apart, envelope, lag_ms, markdown, run
from realtime.programs.demo import PERFORMANCE


@pytest.mark.parametrize("late", [-173.0, -20.0, 0.0, 7.0, 64.0, 250.0])
def test_a_lag_that_was_made_is_found(late):
    rng = np.random.default_rng(2)
    fine = resample(rng.normal(size=60), 30_000)
    at = np.arange(1000, 29_000, 10)
    found, fit = lag_ms(fine[at - round(late)], fine[at])
    assert found == pytest.approx(late, abs=1.0)
    assert fit > 0.99


def test_the_level_of_a_sound_is_told_at_its_own_moment():
    t = np.arange(48_000 * 4) / 48_000
    loud = 0.5 + 0.4 * np.sin(2 * np.pi * 1.0 * t)
    sound = (loud**2 * np.sin(2 * np.pi * 440 * t)).astype(np.float32)
    level = envelope(np.column_stack([sound, sound]))
    assert len(level) == 400
    found, fit = lag_ms(level, loud[np.arange(400) * 480])
    assert found == pytest.approx(0.0, abs=1.0)
    assert fit > 0.99


def test_beats_are_paired_once():
    assert apart(np.array([1.0, 2.0, 3.0]), [1.02, 1.05, 2.2, 2.97]) == pytest.approx([0.02, -0.03])
    assert apart(np.zeros(0), [1.0]) == []


@pytest.mark.slow
def test_the_whole_way_is_measured():
    result = run([PERFORMANCE], ["default"], 6.0, beats=lambda quats: np.array([150, 200], np.int64))
    (row,) = result["rows"]
    assert result["lead_ms"] == "auto"
    assert row["beats"] == 2
    assert row["lead_ms"] > 40
    assert abs(row["sent_ms"]) < 200
    assert row["level_r"] > 0.5
    assert markdown(result).count("\n") == 2
    with pytest.raises(OptionError, match="nobody"):
        run([PERFORMANCE], ["nobody"], 6.0, beats=lambda quats: np.zeros(0, np.int64))
