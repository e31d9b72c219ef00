"""Evaluation of following: performances with a known place, alignments, and scoring of cues."""

import numpy as np
import pytest
from support.clips import LEFT_ARM, RIGHT_ARM, turning

pytest.importorskip("scipy")  # of the tables

from pyanticip.errors import FormatError
from training.evaluate.following import Tally, crossed, evaluate
from training.evaluate.following_baselines import SPEED_WEIGHT, align, descriptors, warp_online
from training.evaluate.following_takes import SUITS, as_suit_sees, names, perform
from training.teacher.kinematics import multiply


@pytest.fixture(scope="module")
def take():
    """(600, 22, 4): twelve seconds of two arms in incommensurate rhythms."""
    time = np.arange(600) / 50.0
    pace = {LEFT_ARM: 1.7, RIGHT_ARM: 2.9}
    return turning({arm: 1.2 * np.sin(time * each) + 0.04 * time for arm, each in pace.items()})


def test_descriptors_are_positions_relative_to_the_hips_and_speeds():
    # A forearm that rotates evenly: the hand moves on a circle.
    half = 0.5 * np.arange(100) / 50.0
    quats = np.zeros((100, 22, 4), np.float32)
    quats[..., 0] = 1.0
    quats[:, 12, 0], quats[:, 12, 3] = np.cos(half), np.sin(half)
    seen = descriptors(quats, 5)
    places, speeds = seen[:, :63].reshape(100, 21, 3), seen[:, 63:] / SPEED_WEIGHT
    hand = np.linalg.norm(np.diff(places[:, 12], axis=0), axis=-1).mean() * 50.0
    assert hand > 0.1
    # Also at both ends, where there are frames on one side only.
    np.testing.assert_allclose(speeds[:, 12], hand, rtol=0.01)
    assert np.abs(speeds[:, :12]).max() < 1e-6
    turned = quats.copy()
    turned[:, 0, 0], turned[:, 0, 2] = np.cos(half), np.sin(half)
    np.testing.assert_allclose(descriptors(turned, 5), seen, atol=1e-5)


def test_both_alignments_follow_a_faster_performance(take):
    played = take[100:500:2]
    truth = np.arange(100, 500, 2) / 50.0
    assert np.abs(align(take, played) - truth).max() < 0.05
    assert np.abs(warp_online(take[100:], played) + 2.0 - truth)[20:].max() < 0.15


def test_a_performance_is_the_take_at_its_places(take):
    performance = perform(take, np.random.default_rng(3))
    frames = np.rint(performance.place * 50.0).astype(int)
    apart = 1.0 - np.abs((performance.quats * take[frames]).sum(axis=-1)).min(axis=1)
    settled = np.ones(len(frames), bool)
    for jump in performance.jumps:
        settled[round(jump * 50.0) : round(jump * 50.0) + 16] = False
    assert apart[settled].max() < 1e-3
    steps = np.diff(performance.place) * 50.0
    assert steps.max() < 1.41 or performance.jumps


def test_performances_drift_in_tempo_stop_and_jump_as_they_say(take):
    long = np.tile(take, (6, 1, 1))
    begins, firsts, stops, sizes = [], [], [], []
    for seed in range(40):
        one = perform(long, np.random.default_rng(seed))
        steps = np.diff(one.place) * 50.0
        jumped = np.rint(np.array(one.jumps) * 50.0).astype(int) - 1
        stopped = np.zeros(len(steps), bool)
        for start, stop in one.stops:
            # Ten frames to slow down and ten to speed up again.
            stopped[round(start * 50.0) - 1 : round(stop * 50.0) + 11] = True
            stops.append(stop - start)
            if stop - start > 0.5 and round(stop * 50.0) < len(steps):
                assert (steps[round(start * 50.0) + 11 : round(stop * 50.0)] < 1e-9).all()
        plain = ~stopped
        plain[jumped] = False
        plain[:10] = False
        assert steps[plain].min() >= 1 / 1.4 - 1e-9
        assert steps[plain].max() <= 1.4 + 1e-9
        sizes += (np.abs(steps[jumped]) / 50.0).tolist()
        events = sorted([*one.jumps, *(start for start, _ in one.stops)])
        begins.append(one.place[0])
        firsts += events[:1]
        assert min(np.diff(events), default=6.0) >= 6.0 - 0.02
        assert one.place.max() <= 60.0, "a minute of it"
    assert 0.4 - 0.02 <= min(stops) < 0.8
    assert 1.6 < max(stops) <= 2.0
    # A jump includes the frame's regular step.
    assert 2.0 - 0.03 < min(sizes) < 2.6
    assert 5.4 < max(sizes) < 6.0 + 0.03
    assert min(firsts) >= 4.0
    assert 0.4 < np.mean(np.array(begins) == 0.0) < 0.8
    assert 10.0 < max(begins) <= 24.0


def test_a_worse_suit_trembles_and_drifts_and_another_holds_joints_otherwise(take):
    rng = np.random.default_rng(0)
    assert as_suit_sees(take, SUITS[0], rng) is take
    back = take * np.float32([1.0, -1.0, -1.0, -1.0])
    for suit, jitter, rest in ((SUITS[1], 1.5, 2.0), (SUITS[2], 1.0, np.hypot(3.0, 5.0))):
        off = 2.0 * np.degrees(
            multiply(back.astype(float), as_suit_sees(take, suit, rng).astype(float))[..., 1:]
        )
        assert np.diff(off, axis=0).std() / 2**0.5 == pytest.approx(jitter, rel=0.1)
        assert np.sqrt(np.mean(off[:, 1:].mean(axis=0) ** 2)) == pytest.approx(rest, rel=0.35)


def test_jumps_are_no_crossings():
    place = np.concatenate([np.arange(100), np.arange(200, 250)]) / 50.0
    assert crossed(place, (2.0,), 1.5) == [pytest.approx(1.5)]
    assert crossed(place, (2.0,), 3.0) == []


def test_each_announced_cue_is_counted_once():
    tally = Tally([])
    announced = [(0, 0.8, 1.02), (0, 0.9, 1.3), (1, 5.0, 5.2), (1, 9.0, 9.2)]
    tally.add(announced, {0: [(1.0, "under way")], 1: [(5.1, "under way")], 2: [(7.0, "under way")]})
    row = tally.row()
    assert (row["cues"], tally.wrong, row["twice"]) == (3, 1, 1)
    assert row["within_60_ms"] == pytest.approx(1 / 3)
    assert row["within_120_ms"] == pytest.approx(2 / 3)
    assert row["missed"] == pytest.approx(1 / 3)
    assert row["sent_150_ms_before"] == 1.0


def test_of_a_motion_in_two_formats_one_is_listed(tmp_path):
    for folder, text in (
        ("cmu", "file,subject\n02_01.amc,02\n02_01.bvh,02\n02_02.amc,02\n02.asf,02\n"),
        ("more", "file,person\na/x.bvh,her\n"),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "MANIFEST.csv").write_text(text)
    assert names(tmp_path) == {"cmu/02_01.bvh": "cmu02", "cmu/02_02.amc": "cmu02", "more/a/x.bvh": "her"}


def test_takes_of_both_sides_are_needed(tmp_path):
    for folder, column in (("cmu", "subject"), ("more", "person")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "MANIFEST.csv").write_text(f"file,{column}\nnone.bvh,05\n")
    with pytest.raises(FormatError, match="of sides chosen and others, found 0 and 0"):
        evaluate(tmp_path, "others", 3, 0)
