"""Properties of the teacher: zero phase, bounds, mirror symmetry, and the documented bandwidth."""

import numpy as np
import pytest
from support.clips import LEFT_ARM, turning

from pyanticip.errors import OptionError, ShapeError
from pyanticip.vocabulary import PARAMETERS
from training.data.augment import mirror
from training.teacher.filters import CausalLowPass, causal_twin, gaussian_kernel, smooth
from training.teacher.kinematic_targets import TEACHER_VERSION, arrivals, compute_targets
from training.teacher.kinematics import FAST_HZ, SLOW_HZ

PAN = PARAMETERS.index("pan")

FROZEN = [
    [0.51786, 0.94849, 0.92179, 0.89552, 0.73317, 0.25252, 0.68724, 0.23089],
    [0.97409, 0.95363, 0.96727, 0.88955, 0.75787, 0.60178, 0.93462, 0.20882],
]
FROZEN_ONSETS = [16, 47, 93, 139, 158, 177, 201, 235, 260, 286]


def test_a_clip_played_backwards_has_its_parameters_played_backwards(move):
    quats = move(400, seed=3)
    forward, backward = compute_targets(quats), compute_targets(quats[::-1])
    np.testing.assert_allclose(backward.params[::-1], forward.params, atol=1e-5)
    # Phrases begin at minima, which reversal keeps; strokes arrive at their ends, which become beginnings.
    reversed_times = np.sort(399 - backward.times("phrase"))
    assert np.array_equal(reversed_times, forward.times("phrase"))


@pytest.mark.parametrize("amount", [0.0, 0.05, 0.5, 3.0])
@pytest.mark.parametrize("frames", [1, 2, 5, 40, 300])
def test_parameters_are_bounded_and_finite(move, frames, amount):
    targets = compute_targets(move(frames, seed=1, amount=amount))
    assert targets.params.shape == (frames, 8)
    assert np.isfinite(targets.params).all()
    assert targets.params.min() >= 0.0
    assert targets.params.max() <= 1.0
    assert all(0.0 < event.strength < 1.0 and 0 <= event.frame < frames for event in targets.events)


def test_the_mirror_turns_pan_round_and_nothing_else(move):
    quats = move(300, seed=4)
    there = compute_targets(quats).params
    back = compute_targets(mirror(quats, np.zeros((300, 3)))[0]).params
    np.testing.assert_allclose(back[:, PAN], 1.0 - there[:, PAN], atol=1e-5)
    np.testing.assert_allclose(np.delete(back, PAN, 1), np.delete(there, PAN, 1), atol=1e-5)
    assert np.ptp(there[:, PAN]) > 0.1


def test_turning_on_the_spot_beforehand_changes_nothing(move):
    from training.data.augment import yaw

    quats = move(200, seed=5)
    turned = yaw(quats, np.zeros((200, 3)), 1.234)[0]
    np.testing.assert_allclose(compute_targets(turned).params, compute_targets(quats).params, atol=1e-5)


def test_raised_hands_are_high_and_stillness_is_quiet():
    still = np.zeros((150, 22, 4))
    still[..., 0] = 1.0
    hanging, raised = still.copy(), still.copy()
    half = np.sqrt(0.5)
    # Left upper arm about z: +90 degrees raises the arm of a T-pose overhead, -90 lowers it.
    for joint, side in ((7, 1.0), (11, -1.0)):
        raised[:, joint] = (half, 0.0, 0.0, side * half)
        hanging[:, joint] = (half, 0.0, 0.0, -side * half)
    high, low = compute_targets(raised).params[75], compute_targets(hanging).params[75]
    assert high[PARAMETERS.index("pitch")] > 0.95
    assert low[PARAMETERS.index("pitch")] < 0.35
    for name in ("loudness", "brightness", "roughness", "density", "pulse"):
        assert low[PARAMETERS.index(name)] < 1e-3, name
    assert abs(low[PAN] - 0.5) < 1e-6


def test_a_steady_swing_has_a_pulse_and_a_sweep_of_tempo_has_less():
    t = np.arange(500) / 50.0
    params = []
    for phase in (2.0 * np.pi * 1.0 * t, 2.0 * np.pi * (t + 3.0 * np.sin(2.0 * np.pi * t / 2.7))):
        params.append(
            compute_targets(turning({LEFT_ARM: 0.6 * np.sin(phase)}))
            .params[100:400, PARAMETERS.index("pulse")]
            .mean()
        )
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


def swinging(amplitude):
    """One arm swinging at 0.5 Hz for 10 s, fastest at frames 50 n."""
    return turning({LEFT_ARM: amplitude * np.sin(np.pi * np.arange(500) / 50.0)})


def test_a_beat_is_found_in_every_swing_while_it_slows_down():
    beats = compute_targets(swinging(1.5)).times("onset")
    inner = beats[(beats > 30) & (beats < 470)]
    assert len(inner) == 9
    # It is fastest at multiples of 50 frames, and still 25 frames later.
    assert ((inner % 50 >= 5) & (inner % 50 <= 20)).all()
    assert set(np.diff(inner)) <= {49, 50, 51}


def test_a_swing_that_is_too_slow_has_no_beat():
    assert not len(compute_targets(swinging(0.2)).times("onset"))


def test_an_arrival_is_a_fall_from_the_highest_speed_and_needs_a_new_stroke_for_the_next():
    curve = np.array([0.0, 0.2, 1.0, 0.8, 0.69, 0.2, 0.4, 0.1, 0.3, 0.45, 0.1, 0.5, 0.3, 0.1])
    found = arrivals(curve, 0.3, 0.6, 1)
    # 0.69 is 0.3 below 1.0; from 0.2 to 0.4 is not a rise of 0.3, from 0.1 to 0.45 is.
    assert [frame for frame, _ in found] == [4, 10, 13]
    np.testing.assert_allclose([gained for _, gained in found], [1.0, 0.35, 0.4])
    # Below the minimum speed, or too near each other.
    assert arrivals(curve, 0.3, 3.0, 1) == []
    assert [frame for frame, _ in arrivals(curve, 0.3, 0.6, 4)] == [4, 10]


def test_what_comes_after_an_arrival_does_not_move_it(move):
    quats = move(400, seed=8)
    beats = compute_targets(quats).times("onset")
    for beat in beats[3:6]:
        # The kernels reach 17 frames ahead; then the result does not depend on what follows.
        known = compute_targets(quats[: beat + 18]).times("onset")
        assert beat in known


def test_wrong_shapes_and_nan_are_refused(move):
    with pytest.raises(ShapeError, match=r"\(T, 22, 4\)"):
        compute_targets(np.zeros((10, 21, 4)))
    broken = move(10)
    broken[3, 2, 1] = np.nan
    with pytest.raises(ShapeError, match="finite"):
        compute_targets(broken)


def test_the_teacher_is_frozen(move):
    """Another result for this movement needs a new ``TEACHER_VERSION`` and a new model."""
    targets = compute_targets(move(300, seed=9))
    assert TEACHER_VERSION == 3
    np.testing.assert_allclose(targets.params[[100, 200]], FROZEN, atol=2e-4)
    assert targets.times("onset").tolist() == FROZEN_ONSETS


def test_it_is_bounded_and_the_first_frame_is_sane(move):
    for frames in (1, 2, 50):
        params = causal_twin(move(frames, seed=5, amount=2.0))
        assert params.shape == (frames, 8)
        assert params.min() >= 0.0
        assert params.max() <= 1.0
    assert causal_twin(np.zeros((0, 22, 4))).shape == (0, 8)


def test_it_follows_the_teacher_late(move):
    quats = move(1500, seed=6)
    targets, twin = compute_targets(quats).params, causal_twin(quats, 0.08)
    for name in ("pitch", "loudness", "brightness", "space", "pan"):
        k = PARAMETERS.index(name)
        errors = [np.abs(twin[100 + d : 1400 + d, k] - targets[100:1400, k]).mean() for d in range(15)]
        best = int(np.argmin(errors))
        assert 2 <= best <= 10, name
        assert errors[best] < 0.5 * errors[0], name


def test_the_low_pass_delays_by_what_it_says():
    ramp = np.arange(2000.0)[:, None]
    for delay in (0.0, 1.5, 10.0):
        out = CausalLowPass(delay).push(ramp)
        assert abs((ramp - out)[-1, 0] - delay) < 1e-6
    with pytest.raises(OptionError):
        CausalLowPass(-1.0)
