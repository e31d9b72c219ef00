"""What must hold for the teacher: zero phase, bounds, mirror, and the bandwidth that the docs promise."""

import numpy as np
import pytest

from pyanticip.errors import ShapeError
from training import kinematics
from training.augment import mirror
from training.descriptors import FAST_HZ, PARAMETERS, SLOW_HZ
from training.filters import gaussian_kernel, smooth
from training.teacher import TEACHER_VERSION, _events, teach

PAN = PARAMETERS.index("pan")

FROZEN = [
    [0.51786, 0.94849, 0.92179, 0.89552, 0.73317, 0.25252, 0.68724, 0.23089],
    [0.97409, 0.95363, 0.96727, 0.88955, 0.75787, 0.60178, 0.93462, 0.20882],
]
FROZEN_ONSETS = [23, 60, 106, 160, 183, 212, 241, 263]


def test_a_clip_played_backwards_has_its_parameters_played_backwards(move):
    quats = move(400, seed=3)
    forward, backward = teach(quats), teach(quats[::-1])
    np.testing.assert_allclose(backward.params[::-1], forward.params, atol=1e-5)
    for kind in ("onset", "phrase"):
        reversed_times = np.sort(399 - backward.times(kind))
        assert np.array_equal(reversed_times, forward.times(kind))


@pytest.mark.parametrize("amount", [0.0, 0.05, 0.5, 3.0])
@pytest.mark.parametrize("frames", [1, 2, 5, 40, 300])
def test_parameters_are_bounded_and_finite(move, frames, amount):
    lesson = teach(move(frames, seed=1, amount=amount))
    assert lesson.params.shape == (frames, 8)
    assert np.isfinite(lesson.params).all()
    assert lesson.params.min() >= 0.0
    assert lesson.params.max() <= 1.0
    assert all(0.0 < event.strength < 1.0 and 0 <= event.frame < frames for event in lesson.events)


def test_noise_stays_bounded():
    quats = np.random.default_rng(0).normal(size=(200, 22, 4))
    quats /= np.linalg.norm(quats, axis=-1, keepdims=True)
    params = teach(quats).params
    assert params.min() >= 0.0
    assert params.max() <= 1.0


def test_the_mirror_turns_pan_round_and_nothing_else(move):
    quats = move(300, seed=4)
    there = teach(quats).params
    back = teach(mirror(quats, np.zeros((300, 3)))[0]).params
    np.testing.assert_allclose(back[:, PAN], 1.0 - there[:, PAN], atol=1e-5)
    np.testing.assert_allclose(np.delete(back, PAN, 1), np.delete(there, PAN, 1), atol=1e-5)
    assert np.ptp(there[:, PAN]) > 0.1


def test_turning_on_the_spot_beforehand_changes_nothing(move):
    from training.augment import yaw

    quats = move(200, seed=5)
    turned = yaw(quats, np.zeros((200, 3)), 1.234)[0]
    np.testing.assert_allclose(teach(turned).params, teach(quats).params, atol=1e-5)


def test_raised_hands_are_high_and_stillness_is_quiet():
    still = np.zeros((150, 22, 4))
    still[..., 0] = 1.0
    hanging, raised = still.copy(), still.copy()
    half = np.sqrt(0.5)
    # Left upper arm about z: +90 degrees lifts the arm of a T-pose overhead, -90 lets it hang.
    for joint, side in ((7, 1.0), (11, -1.0)):
        raised[:, joint] = (half, 0.0, 0.0, side * half)
        hanging[:, joint] = (half, 0.0, 0.0, -side * half)
    high, low = teach(raised).params[75], teach(hanging).params[75]
    assert high[PARAMETERS.index("pitch")] > 0.95
    assert low[PARAMETERS.index("pitch")] < 0.35
    for name in ("loudness", "brightness", "roughness", "density", "pulse"):
        assert low[PARAMETERS.index(name)] < 1e-3, name
    assert abs(low[PAN] - 0.5) < 1e-6


def test_a_steady_swing_has_a_pulse_and_a_sweep_of_tempo_has_less():
    t = np.arange(500) / 50.0
    params = []
    for phase in (2.0 * np.pi * 1.0 * t, 2.0 * np.pi * (t + 3.0 * np.sin(2.0 * np.pi * t / 2.7))):
        quats = np.zeros((500, 22, 4))
        quats[..., 0] = 1.0
        angle = 0.6 * np.sin(phase)
        quats[:, 7, 0], quats[:, 7, 3] = np.cos(angle / 2), np.sin(angle / 2)
        params.append(teach(quats).params[100:400, PARAMETERS.index("pulse")].mean())
    assert params[0] > 0.9
    assert params[1] < params[0] - 0.1


@pytest.mark.parametrize("cutoff", [FAST_HZ, SLOW_HZ])
def test_the_smoother_passes_its_cutoff_at_3_db_and_in_phase(cutoff):
    taps = gaussian_kernel(cutoff)
    assert abs(taps.sum() - 1.0) < 1e-12
    assert np.array_equal(taps, taps[::-1])
    offsets = np.arange(len(taps)) - len(taps) // 2
    gain = (taps * np.cos(2.0 * np.pi * cutoff * offsets / 50.0)).sum()
    assert 20.0 * np.log10(gain) > -3.1
    constant = smooth(np.full((60, 2), 0.7), cutoff)
    np.testing.assert_allclose(constant, 0.7, atol=1e-12)


def test_beats_are_found_where_a_swing_stops():
    t = np.arange(500) / 50.0
    angle = 0.8 * np.sin(2.0 * np.pi * 0.5 * t)
    quats = np.zeros((500, 22, 4))
    quats[..., 0] = 1.0
    quats[:, 7, 0], quats[:, 7, 3] = np.cos(angle / 2), np.sin(angle / 2)
    beats = teach(quats).times("onset")
    stops = np.arange(25, 500, 50)
    inner = stops[(stops > 30) & (stops < 470)]
    assert all(np.abs(beats - stop).min() <= 1 for stop in inner)
    assert len(beats) <= len(stops) + 2


@pytest.mark.parametrize("tilt", [-0.03, 0.0, 0.03])
def test_a_trough_with_two_bottoms_has_its_beat_in_the_middle_whichever_is_lower(tilt):
    t = np.arange(200)
    # Two bottoms 8 frames apart at 96 and 104, with a low ridge between them; 3 % tell them apart.
    near = (t - 100) / 4.0
    speed = 1.0 - 0.75 * np.exp(-(((t - 100) / 8.0) ** 4))
    speed *= 1.0 + 0.1 * np.exp(-(near**2) * 2.0) + tilt * np.tanh(near)
    (beat,) = [event for event in _events(speed**2, np.ones(200)) if event.kind == "onset"]
    assert abs(beat.frame - 100) <= 1
    low = int(np.argmin(speed))
    assert tilt == 0.0 or abs(low - 100) >= 2


def test_wrong_shapes_and_nan_are_refused(move):
    with pytest.raises(ShapeError, match=r"\(T, 22, 4\)"):
        teach(np.zeros((10, 21, 4)))
    broken = move(10)
    broken[3, 2, 1] = np.nan
    with pytest.raises(ShapeError, match="finite"):
        teach(broken)


def test_the_teacher_is_frozen(move):
    """Another answer about this movement needs a new ``TEACHER_VERSION``, and a new model."""
    lesson = teach(move(300, seed=9))
    assert TEACHER_VERSION == 2
    np.testing.assert_allclose(lesson.params[[100, 200]], FROZEN, atol=2e-4)
    assert lesson.times("onset").tolist() == FROZEN_ONSETS


def test_the_body_is_the_canonical_one():
    from pyanticip import _core

    assert tuple(_core.CANONICAL_JOINTS) == kinematics.JOINTS
    assert tuple(_core.CANONICAL_PARENTS) == kinematics.PARENTS
    np.testing.assert_allclose(np.asarray(_core.CANONICAL_OFFSETS), kinematics.OFFSETS, atol=1e-6)
