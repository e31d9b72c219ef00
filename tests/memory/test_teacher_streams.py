"""The core's teacher and twins say what the formulas in NumPy say, at once and in pieces."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import teacher_reference as reference

import pyanticip as pa
from pyanticip._core import TEACHER_REACH, CausalTwins, teacher_parameters
from pyanticip.errors import OptionError, ShapeError

DELAYS = (0.0, 0.02, 0.06, 0.16)
CLIPS = ("cmu/05_18.bvh", "cmu/02_01.amc", "more/accad-male1/Male1_A11_CrawlForward.bvh")


def agree(quats):
    np.testing.assert_allclose(teacher_parameters(quats), reference.teach(quats), atol=1e-6)
    twins = CausalTwins(DELAYS).push(quats)
    for i, delay in enumerate(DELAYS):
        np.testing.assert_allclose(twins[:, i], reference.twin(quats, delay), atol=1e-6)


@pytest.mark.parametrize("frames", [1, 2, 3, 30, 63, 64, 120, 121, 122, 400])
def test_they_say_what_the_formulas_say(move, frames):
    agree(move(frames, seed=frames))


@pytest.mark.parametrize("name", CLIPS)
def test_they_say_what_the_formulas_say_of_real_motion(data_dir, name):
    if not (data_dir / name).is_file():
        pytest.skip(f"{name} is not there")
    agree(pa.load_motion(data_dir / name).resample(50.0).retarget("humanoid").quats)


def test_they_say_what_the_formulas_say_of_noise():
    quats = np.random.default_rng(0).normal(size=(200, 22, 4))
    agree(quats / np.linalg.norm(quats, axis=-1, keepdims=True))


@settings(max_examples=20)
@given(st.integers(1, 300), st.lists(st.integers(0, 300), max_size=4))
def test_in_pieces_twins_say_the_same_bits(move, frames, cuts):
    quats = move(frames, seed=frames)
    twins = CausalTwins(DELAYS)
    edges = [0, *sorted(min(cut, frames) for cut in cuts), frames]
    heard = [twins.push(quats[start:end]) for start, end in pairwise(edges)]
    assert np.array_equal(np.concatenate(heard), CausalTwins(DELAYS).push(quats))


def test_what_comes_later_than_its_reach_changes_nothing_that_the_teacher_said(move):
    one, other = move(300, seed=1), move(300, seed=1)
    other[200:] = move(300, seed=2)[200:]
    first, second = teacher_parameters(one), teacher_parameters(other)
    assert np.array_equal(first[: 200 - TEACHER_REACH], second[: 200 - TEACHER_REACH])
    assert not np.array_equal(first[200 - TEACHER_REACH :], second[200 - TEACHER_REACH :])


def test_after_a_reset_comes_a_first_frame(move):
    quats = move(200, seed=3)
    twins = CausalTwins(DELAYS)
    for _ in range(2):
        assert np.array_equal(twins.push(quats), CausalTwins(DELAYS).push(quats))
        twins.reset()


def test_what_is_refused():
    with pytest.raises(ShapeError):
        teacher_parameters(np.zeros((5, 21, 4)))
    for wrong in (np.nan, 1e8, 0.0):
        with pytest.raises(ShapeError, match="finite unit quaternions"):
            teacher_parameters(np.full((1, 22, 4), wrong))
        with pytest.raises(ShapeError, match="finite unit quaternions"):
            CausalTwins(DELAYS).push(np.full((1, 22, 4), wrong))
    for delay in (-0.1, np.nan):
        with pytest.raises(OptionError, match="delay"):
            CausalTwins([delay])
