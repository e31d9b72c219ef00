"""Corruption by suits and networks has exactly the stated effects."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyanticip import _core
from pyanticip.errors import OptionError
from pyanticip.motion.canonical import canonical_skeleton
from pyanticip.motion.clip import forward_kinematics
from pyanticip.motion.rotations import conjugate, multiply
from training.data.corrupt import (
    SUITS,
    Corruption,
    corrupt,
    delivered,
    dropped_joints,
    frozen_frames,
    packet_loss,
    sensor_noise,
    sent_at,
    wander,
)

ALL = np.ones(22, dtype=np.bool_)
NOTHING = Corruption(noise=0.0, drop=0.0, freeze=0.0, loss=0.0)


def angles(one, other):
    dot = np.abs((one * other).sum(axis=-1)).clip(0.0, 1.0)
    return 2.0 * np.arccos(dot)


def test_jitter_and_drift_have_the_size_they_were_given(clip):
    quats, root = clip(4000)
    rng = np.random.default_rng(0)
    noisy, place = sensor_noise(quats, root, ALL, rng, jitter=0.01, drift=0.0, place=0.005)
    # A turn of three independent axes has an RMS of sqrt(3) times theirs.
    assert np.sqrt((angles(noisy, quats) ** 2).mean()) == pytest.approx(0.01 * np.sqrt(3), rel=0.03)
    assert (place - root).std() == pytest.approx(0.005, rel=0.05)
    drifted, same = sensor_noise(quats, root, ALL, rng, jitter=0.0, drift=0.05, seconds=1.0)
    assert np.sqrt((angles(drifted, quats) ** 2).mean()) == pytest.approx(0.05 * np.sqrt(3), rel=0.1)
    np.testing.assert_array_equal(same, root)
    # It wanders: changes between frames are far smaller than the deviation.
    assert angles(drifted[1:], quats[1:])[0].mean() < 0.2
    np.testing.assert_allclose(np.linalg.norm(drifted, axis=-1), 1.0, atol=1e-6)


def test_trembling_has_its_size_its_time_and_differs_between_joints(clip):
    quats, root = clip(4000)
    trembling = NOTHING.model_copy(
        update={"tremble": 1.0, "tremble_degrees": (0.2, 0.2), "tremble_seconds": (0.02, 0.02)}
    )
    seen = corrupt(quats, root, ALL, np.random.default_rng(3), trembling)
    assert seen.troubles == ("tremble",)
    turns = multiply(conjugate(quats), seen.quats.astype(np.float64))[..., 1:] * 2.0
    sizes = np.degrees(turns.std(axis=(0, 2)))
    assert np.median(sizes) == pytest.approx(0.2, rel=0.3)
    assert sizes.max() / sizes.min() > 2.0
    # One grid step is the time constant: 1/e of a turn is left in the next frame, and nothing drifts.
    assert (turns[1:] * turns[:-1]).mean() / turns.var() == pytest.approx(np.exp(-1.0), abs=0.03)
    assert abs((turns[50:] * turns[:-50]).mean() / turns.var()) < 0.03
    assert (seen.root - root).std() == pytest.approx(0.0004, rel=0.05)


def test_a_walk_forgets_within_its_time():
    walk = wander(20000, 4, 0.5, np.random.default_rng(1))
    assert walk.var() == pytest.approx(1.0, rel=0.15)
    one_later = (walk[25:] * walk[:-25]).mean() / walk.var()
    assert one_later == pytest.approx(np.exp(-1.0), abs=0.06)


def test_joints_that_are_not_there_stay_at_rest(clip):
    quats, root = clip(50)
    mask = ALL.copy()
    mask[9] = False
    quats = np.array(quats)
    quats[:, 9] = (1.0, 0.0, 0.0, 0.0)
    noisy, _ = sensor_noise(quats, root, mask, np.random.default_rng(0), jitter=0.1, drift=0.1)
    np.testing.assert_array_equal(noisy[:, 9], quats[:, 9])
    assert (angles(noisy, quats)[:, mask] > 0).all()


@pytest.mark.parametrize("suit", SUITS)
def test_the_joints_a_suit_has_keep_their_place_in_the_room(clip, suit):
    quats, root = clip(30)
    kept = SUITS[suit]
    less, mask = dropped_joints(quats, ALL, set(range(22)) - set(kept))
    assert tuple(np.flatnonzero(mask)) == tuple(sorted(kept))
    assert (less[:, ~mask] == (1.0, 0.0, 0.0, 0.0)).all()
    before, _ = forward_kinematics(canonical_skeleton(), quats, root)
    after, _ = forward_kinematics(canonical_skeleton(), less, root)
    assert angles(before[:, list(kept)], after[:, list(kept)]).max() < 2e-3


def test_the_suits_have_as_many_joints_as_they_are_called():
    assert {suit: len(set(joints)) for suit, joints in SUITS.items()} == {
        "ten": 10,
        "six": 6,
        "three": 3,
        "hand": 1,
        "phone": 1,
    }


@given(st.integers(1, 400), st.integers(0, 2**31), st.floats(0, 300), st.integers(1, 5), st.integers(0, 30))
@settings(max_examples=60)
def test_a_freeze_shows_an_earlier_frame_and_time_goes_on(frames, seed, rate, shortest, more):
    seen = frozen_frames(
        frames, np.random.default_rng(seed), per_minute=rate, shortest=shortest, longest=shortest + more
    )
    assert len(seen) == frames
    assert (seen <= np.arange(frames)).all()
    assert (seen >= 0).all()
    if rate == 0:
        np.testing.assert_array_equal(seen, np.arange(frames))


def test_freezes_are_as_many_and_as_long_as_asked():
    seen = frozen_frames(60 * 50 * 50, np.random.default_rng(0), per_minute=4.0, shortest=5, longest=5)
    held = seen != np.arange(len(seen))
    starts = int((held[1:] & ~held[:-1]).sum())
    assert starts == pytest.approx(200, rel=0.2)
    assert held.sum() == pytest.approx(5 * starts, rel=0.05)


@given(st.integers(1, 300), st.integers(0, 2**31), st.floats(0, 0.9), st.floats(1, 60))
@settings(max_examples=60)
def test_the_ends_arrive_and_no_gap_is_longer_than_is_filled(frames, seed, share, burst):
    arrived = packet_loss(frames, np.random.default_rng(seed), share=share, burst=burst)
    assert arrived[0]
    assert arrived[-1]
    assert np.diff(np.flatnonzero(arrived), prepend=0).max() <= _core.MAX_GAP + 1


def test_as_much_is_lost_in_bursts_as_asked():
    arrived = packet_loss(100_000, np.random.default_rng(0), share=0.1, burst=4.0)
    lost = ~arrived
    bursts = int((lost[1:] & arrived[:-1]).sum())
    assert lost.mean() == pytest.approx(0.1, rel=0.1)
    assert lost.sum() / bursts == pytest.approx(4.0, rel=0.1)


def test_long_gaps_are_as_long_as_is_filled_all_of_them():
    arrived = packet_loss(2_000, np.random.default_rng(0), share=0.9, burst=500.0)
    gaps = np.diff(np.flatnonzero(arrived)) - 1
    # Longer losses are split by single frames.
    assert np.count_nonzero(gaps == _core.MAX_GAP) > 10
    assert np.count_nonzero((gaps > 0) & (gaps < _core.MAX_GAP)) < 10


def test_what_is_lost_is_filled_as_the_live_stream_fills_it(clip):
    quats, root = clip(200)
    arrived = packet_loss(200, np.random.default_rng(3), share=0.2, burst=5.0)
    filled, place = delivered(quats, root, arrived)
    assert filled.shape == quats.shape
    np.testing.assert_allclose(filled[arrived], quats[arrived], atol=1e-6)
    np.testing.assert_allclose(place[arrived], root[arrived], atol=1e-6)
    # Gaps are filled by curves, which are nearer to the truth than straight lines.
    straight = _core.Resampler(22, 50.0)
    made = [straight.push(i / 50.0, quats[i], root[i]) for i in np.flatnonzero(arrived)]
    turns, places = (np.concatenate(part) for part in zip(*made, strict=True))
    lost = ~arrived
    assert np.abs(place - root)[lost].mean() < 0.5 * np.abs(places - root)[lost].mean()
    assert angles(filled[lost], quats[lost]).mean() < 0.8 * angles(turns[lost], quats[lost]).mean()


@pytest.mark.parametrize("rate", [20.0, 24.0, 31.7, 48.0, 50.0])
def test_a_slow_suit_cuts_corners_and_keeps_time(clip, rate):
    quats, root = clip(200)
    turns, places = sent_at(quats, root, rate)
    assert turns.shape == quats.shape
    assert places.shape == root.shape
    np.testing.assert_allclose(places[[0, -1]], root[[0, -1]], atol=1e-5)
    late = [np.abs(turns[5:-5] - quats[5 + lag : len(quats) - 5 + lag]).mean() for lag in (-1, 0, 1)]
    assert np.argmin(late) == 1
    assert (late[1] < 1e-6) == (rate == 50.0)


@pytest.mark.parametrize("rate", [24.0, 30.0])
def test_the_live_front_sees_what_a_slow_suit_teaches(clip, rate):
    from pyanticip import Clip
    from pyanticip.motion.datagrams import datagrams

    quats, root = clip(120)
    seen, place = sent_at(quats, root, rate)
    body = Clip(quats, root, 50.0, canonical_skeleton())
    front = _core.LiveFront("msgpack")
    outs = [front.feed(datagram, when) for when, datagram in datagrams(body, "msgpack", rate=rate)]
    live = np.concatenate([out.features for out in outs if out is not None])
    offline = _core.motion_features(seen, place, ALL)
    assert len(live) >= 116
    np.testing.assert_allclose(live[:116], offline[:116], atol=2e-3)


def test_the_live_front_sees_what_training_sees(clip):
    """Datagrams of the frames that arrived, through the live front, give the same features."""
    from pyanticip import Clip
    from pyanticip.motion.datagrams import datagrams

    quats, root = clip(120)
    arrived = packet_loss(120, np.random.default_rng(5), share=0.15, burst=3.0)
    seen, place = delivered(quats, root, arrived)
    body = Clip(quats, root, 50.0, canonical_skeleton())
    front = _core.LiveFront("msgpack")
    rows = []
    frame = -1
    for when, datagram in datagrams(body, "msgpack"):
        out = front.feed(datagram, when) if frame < 0 or arrived[frame] else None
        if out is not None:
            rows.append(out.features)
        frame += 1
    live = np.concatenate(rows)
    offline = _core.motion_features(seen, place, ALL)
    assert len(live) == len(offline) == 120
    np.testing.assert_allclose(live, offline, atol=2e-3)


def test_nothing_is_done_where_nothing_is_asked(clip):
    quats, root = clip(60)
    seen = corrupt(quats, root, ALL, np.random.default_rng(0), NOTHING)
    np.testing.assert_array_equal(seen.quats, quats)
    np.testing.assert_array_equal(seen.root, root)
    assert seen.troubles == ()
    assert seen.mask.all()


@given(st.integers(0, 2**31))
@settings(max_examples=40)
def test_whatever_happens_it_is_a_movement_of_the_same_length(seed):
    rng = np.random.default_rng(seed)
    quats = rng.normal(size=(90, 22, 4))
    quats /= np.linalg.norm(quats, axis=-1, keepdims=True)
    worst = Corruption(
        noise=0.7, drop=0.7, freeze=0.7, loss=0.7, loss_share=(0.0, 0.6), slow=0.7, tremble=0.7
    )
    root = rng.normal(size=(90, 3))
    seen = corrupt(quats, root, ALL, np.random.default_rng(seed), worst)
    again = corrupt(quats, root, ALL, np.random.default_rng(seed), worst)
    assert seen.quats.shape == (90, 22, 4)
    assert seen.root.shape == (90, 3)
    np.testing.assert_allclose(np.linalg.norm(seen.quats, axis=-1), 1.0, atol=1e-5)
    assert np.isfinite(seen.root).all()
    np.testing.assert_array_equal(seen.quats, again.quats)
    assert seen.troubles == again.troubles
    assert (seen.quats[:, ~seen.mask] == (1.0, 0.0, 0.0, 0.0)).all()
    if "drop" in seen.troubles:  # solved without positions, or the hips alone
        assert seen.mask.sum() in (1, 22)
        assert not seen.root.any()
    else:
        assert seen.mask.all()


def test_nonsense_is_refused_in_the_parts():
    rng = np.random.default_rng(0)
    with pytest.raises(OptionError, match="shortest <= longest"):
        frozen_frames(10, rng, per_minute=1.0, shortest=3, longest=2)
    with pytest.raises(OptionError, match="burst >= 1"):
        packet_loss(10, rng, share=0.1, burst=0.5)
