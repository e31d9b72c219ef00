"""The core's teacher and twins follow the formulas of docs/teacher.md, in a batch and in pieces.

The reference in NumPy and SciPy, which agreed to 1e-6 on whole clips, was last in commit d01f23ea
(``tests/support/teacher_reference.py``); ``tests/golden/teacher.json`` has its values.
"""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyanticip as pa
from pyanticip._core import TEACHER_REACH, CausalTwins, teacher_parameters
from pyanticip.errors import OptionError, ShapeError

DELAYS = (0.0, 0.02, 0.06, 0.16)
CLIPS = ("cmu/05_18.bvh", "cmu/02_01.amc", "more/accad-male1/Male1_A11_CrawlForward.bvh")


SAID = json.loads((Path(__file__).parents[1] / "golden" / "teacher.json").read_text(encoding="utf-8"))


def agree(name, quats):
    """Parameters of teacher and twins, (5, 8), in six frames of a clip; and their sum over all frames."""
    found = np.stack([teacher_parameters(quats), *CausalTwins(DELAYS).push(quats).swapaxes(0, 1)], 1)
    *some, total = np.reshape(SAID[name], (7, 5, 8))
    np.testing.assert_allclose(found[np.linspace(0, len(found) - 1, 6).astype(int)], some, atol=1e-6)
    np.testing.assert_allclose(found.sum(0, dtype=np.float64), total, atol=1e-6 + 1e-7 * len(found), rtol=0)


@pytest.mark.parametrize("frames", [1, 2, 3, 30, 63, 64, 120, 121, 122, 400])
def test_they_say_what_the_formulas_say(move, frames):
    agree(f"move {frames}", move(frames, seed=frames))


@pytest.mark.parametrize("name", CLIPS)
def test_they_say_what_the_formulas_say_of_real_motion(data_dir, name):
    if not (data_dir / name).is_file():
        pytest.skip(f"{name} is not there")
    agree(name, pa.load_motion(data_dir / name).resample(50.0).retarget("humanoid").quats)


def test_they_say_what_the_formulas_say_of_noise():
    quats = np.random.default_rng(0).normal(size=(200, 22, 4))
    agree("noise", quats / np.linalg.norm(quats, axis=-1, keepdims=True))


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
