"""The filters that rivals follow the twin with, against their textbooks' recursions."""

import numpy as np
import pytest

pytest.importorskip("scipy")  # of the steady state

from training.evaluate.trackers import DT, kalman, one_euro


@pytest.fixture
def waves():
    """(400, 2): what a filter may be asked to follow."""
    time = np.arange(400) * DT
    return np.stack((np.sin(3.0 * time), 0.2 + 0.3 * time), 1)


@pytest.mark.parametrize("noise", [10.0, 1e4])
@pytest.mark.parametrize("memory_s", [0.0, 0.2])
def test_in_the_long_run_it_is_kalmans_recursion(waves, noise, memory_s):
    keep = np.exp(-DT / memory_s) if memory_s else 1.0
    move = np.array([[1.0, memory_s * (1.0 - keep) if memory_s else DT], [0.0, keep]])
    driven = noise * np.array([[DT**3 / 3.0, DT**2 / 2.0], [DT**2 / 2.0, DT]])
    spread, state, told = 1e3 * np.eye(2), np.stack((waves[0], np.zeros(2))), []
    for y in waves:
        state, spread = move @ state, move @ spread @ move.T + driven
        gain = spread[:, :1] / (spread[0, 0] + 1.0)
        state, spread = state + gain * (y - state[0]), spread - gain @ spread[:1]
        told.append(state)
    value, speed = kalman(waves, noise, memory_s)
    np.testing.assert_allclose(np.stack((value, speed), 1)[300:], told[300:], rtol=1e-3, atol=1e-4)


def test_a_filter_without_damping_is_right_about_a_straight_line(waves):
    value, speed = kalman(waves, 1e3, 0.0)
    np.testing.assert_allclose(value[300:, 1], waves[300:, 1], atol=1e-6)
    np.testing.assert_allclose(speed[300:, 1], 0.3, atol=1e-6)
    still, at_rest = kalman(np.full((50, 1), 0.7), 1e3, 0.0)
    np.testing.assert_allclose(still, 0.7)
    np.testing.assert_allclose(at_rest, 0.0, atol=1e-9)


def test_one_euro_is_the_papers_and_clips_beside_it_change_nothing(waves):
    def smoothed(x, y, cutoff):
        return x + (y - x) / (1.0 + 1.0 / (2.0 * np.pi * cutoff * DT))

    clips = [waves[:150], waves, waves[40:190] ** 2, waves[:1]]
    for clip, (value, speed) in zip(clips, one_euro(clips, 3.0, 4.0), strict=True):
        assert value.shape == speed.shape == clip.shape
        x, v = clip[0], np.zeros(2)
        for t in range(1, len(clip)):
            v = smoothed(v, (clip[t] - x) / DT, 1.0)
            x = smoothed(x, clip[t], 3.0 + 4.0 * np.abs(v))
            np.testing.assert_allclose(value[t], x)
            np.testing.assert_allclose(speed[t], v)
