"""The causal twin: no look-ahead, stream equals batch, and it says what the teacher says, later."""

import itertools

import numpy as np
import pytest

from pyanticip._core import CausalTwins
from pyanticip.errors import OptionError
from pyanticip.vocabulary import PARAMETERS
from training.teacher.filters import CausalLowPass
from training.teacher.handmade import teach
from training.teacher.twin import causal_twin


@pytest.mark.parametrize("delay", [0.0, 0.08])
def test_the_future_changes_nothing(move, delay):
    quats = move(260, seed=1)
    other = quats.copy()
    other[150:] = move(260, seed=2)[150:]
    one, two = causal_twin(quats, delay), causal_twin(other, delay)
    assert np.array_equal(one[:150], two[:150])
    assert not np.array_equal(one[150:], two[150:])


@pytest.mark.parametrize("pieces", [[1] * 200, [7, 1, 92, 100], [199, 1]])
def test_pushing_in_pieces_is_pushing_whole(move, pieces):
    quats = move(200, seed=3)
    twin = CausalTwins([0.08])
    cuts = np.cumsum([0, *pieces])
    parts = [twin.push(quats[a:b]) for a, b in itertools.pairwise(cuts)]
    assert np.array_equal(np.concatenate(parts)[:, 0], causal_twin(quats, 0.08))


def test_it_is_bounded_and_the_first_frame_is_sane(move):
    for frames in (1, 2, 50):
        params = causal_twin(move(frames, seed=5, amount=2.0))
        assert params.shape == (frames, 8)
        assert params.min() >= 0.0
        assert params.max() <= 1.0
    assert causal_twin(np.zeros((0, 22, 4))).shape == (0, 8)


def test_it_follows_the_teacher_late(move):
    quats = move(1500, seed=6)
    lesson, twin = teach(quats).params, causal_twin(quats, 0.08)
    for name in ("pitch", "loudness", "brightness", "space", "pan"):
        k = PARAMETERS.index(name)
        errors = [np.abs(twin[100 + d : 1400 + d, k] - lesson[100:1400, k]).mean() for d in range(15)]
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
