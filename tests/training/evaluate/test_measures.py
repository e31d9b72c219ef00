"""Measures on forecasters with known properties: ahead, only surer, or harmful."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training.evaluate.measures import (
    AHEAD,
    AHEAD_MS,
    HARM,
    LAGS_MS,
    SHORTEST,
    beyond,
    harm,
    interval,
    lag_profile,
    mean_error,
    mean_of_ratios,
    ratio,
    tally,
    verdict,
)


def drawn(frames=1500, seed=0):
    """Smooth random parameters (T, 8)."""
    noise = np.random.default_rng(seed).normal(size=(frames + 80, 8))
    smooth = np.apply_along_axis(np.convolve, 0, noise, np.hanning(25) / 8.0, "same")
    return np.clip(0.5 + 0.2 * smooth[40:-40], 0.0, 1.0)


def always(rows):
    return np.repeat(rows[:, :, None], len(AHEAD), axis=2)


def late(params, frames):
    return always(np.roll(params, frames, axis=0))


def knows(params, noise=0.05, seed=1):
    """A forecaster that knows the future, with some noise."""
    came = np.stack([np.roll(params, -h, axis=0) for h in AHEAD], axis=-1)
    return came + noise * np.random.default_rng(seed).normal(size=came.shape)


def field(params):
    """Three baselines, a forecaster that knows the future, and one that smooths."""
    hold, mean = late(params, 0), always(np.full_like(params, 0.5))
    return [hold, late(params, 3), mean, knows(params), 0.5 * (hold + mean)]


BASELINES, KNOWS, SMOOTHS = (0, 1, 2), 3, 4


def judged(tallies, one, baselines=BASELINES):
    lags = [LAGS_MS[n] for n in lag_profile(tallies, one).argmax(axis=-1)]
    explained, error = beyond(tallies, one, baselines), ratio(mean_error(tallies), one, baselines)
    said = [verdict(*each) for each in zip(lags, explained, error, error, error, AHEAD_MS, strict=True)]
    return lags, explained, error, said


def test_who_knows_what_comes_is_ahead_by_the_whole_horizon():
    params = drawn()
    lags, explained, error, said = judged([tally("a", params, field(params))], KNOWS)
    assert lags == list(AHEAD_MS)
    assert (explained > 0.2).all()
    assert (error < 1.0).all()
    assert said == ["ahead"] * 3


def test_who_only_smooths_is_surer_and_not_ahead():
    """A forecast that is a mix of the baselines explains nothing beyond them."""
    params = drawn()
    lags, explained, error, said = judged([tally("a", params, field(params))], SMOOTHS)
    assert lags == [0, 0, 0]
    assert (explained < 1e-3).all()
    at = error < 1.0
    assert at.any()
    assert [one for one, better in zip(said, at, strict=True) if better] == ["surer"] * int(at.sum())
    assert [one for one, better in zip(said, at, strict=True) if not better] == ["worse"] * int((~at).sum())


@pytest.mark.parametrize(
    ("lag", "explained", "error", "low", "high", "expected"),
    [
        (100, 0.2, 0.9, 0.8, 0.99, "ahead"),
        (80, 0.5, 0.9, 0.8, 0.99, "surer"),
        (200, 0.19, 0.9, 0.8, 0.99, "surer"),
        (200, 0.9, 0.9, 0.8, 1.0, "unclear"),
        (0, 0.0, 0.9, 0.8, 1.3, "unclear"),
        (200, 0.9, 0.9, None, None, "unclear"),
        (200, 0.9, 1.0, 0.9, 1.1, "no better"),
        (200, 0.9, 1.1, None, None, "no better"),
        (200, 0.9, 1.2, 1.01, 1.3, "worse"),
    ],
)
def test_ahead_needs_half_the_horizon_what_no_rival_says_and_no_chance(
    lag, explained, error, low, high, expected
):
    assert verdict(lag, explained, error, low, high, 200) == expected


def test_explained_is_what_least_squares_leaves():
    rng, params = np.random.default_rng(3), drawn(400)
    said = [late(params, 2), knows(params, 0.2, 5), rng.uniform(size=(400, 8, 3))]
    found = beyond([tally("a", params, said)], 1, [0, 2])
    span = slice(27, 400 - 27 - 20)
    wanted = np.zeros(3)
    for i, h in enumerate(AHEAD):
        for k in range(8):
            came = params[span.start + h : span.stop + h, k]
            mix = np.column_stack([np.ones(len(came)), said[0][span, k, i], said[2][span, k, i]])
            left = [y - mix @ np.linalg.lstsq(mix, y, rcond=None)[0] for y in (came, said[1][span, k, i])]
            wanted[i] += max(np.corrcoef(*left)[0, 1], 0.0) ** 2 / 8
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_errors_are_over_frames_within_a_person_and_then_over_people():
    long, short = drawn(900, 1), drawn(200, 2)
    one = tally("a", long, [late(long, 0) * 0.0])
    two = [tally("b", short, [late(short, 0) * 0.0]), tally("b", short, [late(short, 0) * 0.0])]
    alone = [mean_error([one]), mean_error(two[:1])]
    np.testing.assert_allclose(mean_error([one, *two]), np.mean(alone, axis=0))


def test_every_parameter_has_its_best_rival_in_hindsight():
    error = np.zeros((3, 8, 3))
    error[0, :4], error[0, 4:] = 0.2, 0.4
    error[1, :4], error[1, 4:] = 0.4, 0.2
    error[2] = 0.1
    np.testing.assert_allclose(ratio(error, 2, (0, 1)), 0.5)
    np.testing.assert_allclose(ratio(error, 2, (0,)), 1 / 3)
    np.testing.assert_allclose(mean_of_ratios(error, 2, (0,)), (1 / 2 + 1 / 4) / 2)


def test_clips_that_are_harmed_are_found_against_one_rival_for_all():
    params = drawn(300)
    said = [late(params, 0), late(params, 12), late(params, 12)]
    safe, hurt = tally("a", params, [said[0], said[1], said[0]]), tally("a", params, said)
    found = harm([safe, hurt], 2, (0, 1))
    np.testing.assert_allclose(found[0], 1.0)
    assert (found[1] > HARM).all()


def test_intervals_hold_the_ratio_and_widen_with_what_people_differ():
    clips = [drawn(300, seed) for seed in range(6)]
    alike = [tally("abc"[n % 3], one, [late(one, 0), knows(one, 0.03)]) for n, one in enumerate(clips)]
    apart = [
        tally("abc"[n % 3], one, [late(one, 0), knows(one, 0.1 * (n % 3))]) for n, one in enumerate(clips)
    ]
    widths = []
    for tallies in (alike, apart):
        low, high = interval(tallies, 1, (0,), draws=200)
        middle = ratio(mean_error(tallies), 1, (0,))
        assert (low <= middle).all()
        assert (middle <= high).all()
        widths.append(high - low)
    assert (widths[1] > 2.0 * widths[0]).all()
    assert interval(alike[:1], 1, (0,)) is None


@settings(max_examples=20)
@given(st.integers(SHORTEST, 200), st.integers(0, 2**32 - 1))
def test_a_clip_cut_in_two_adds_up_to_no_more_frames(frames, seed):
    """The edges of clips do not count, however short these are; sums are finite and of the right shape."""
    params = drawn(frames, seed)
    one = tally("a", params, [late(params, 0), knows(params)])
    assert one.frames == frames - 2 * 27 - 20
    assert one.errors.shape == (2, 8, 3)
    assert np.isfinite(lag_profile([one], 1)).all()
    assert ((beyond([one], 1, (0,)) >= 0.0) & (beyond([one], 1, (0,)) <= 1.0)).all()
