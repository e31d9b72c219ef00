"""The trust in beats: what the measure of it must say of beats that hold and of beats that do not."""

import numpy as np

from training.beats import agreement, lowest_frames, middles


def test_beats_agree_with_themselves_without_noise(move):
    clips = [move(400, seed=s) for s in range(3)]
    for beats in (lowest_frames, middles):
        score = agreement(clips, beats, 0.0, np.random.default_rng(0))
        assert score.true > 5
        assert score.hits == score.true == score.reported


def test_beats_that_follow_the_noise_do_not_agree(move):
    def fickle(quats):
        # Any noise at all changes the seed, as it changes which of two bottoms is lower.
        rng = np.random.default_rng(int(abs(quats).sum() * 1e6))
        return np.sort(rng.choice(400, 8, replace=False))

    clips = [move(400, seed=s) for s in range(3)]
    steady = agreement(clips, middles, 0.3, np.random.default_rng(0))
    assert agreement(clips, fickle, 0.3, np.random.default_rng(0)).f1 < 0.6 < steady.f1


def test_both_find_the_same_troughs(move):
    quats = move(500, seed=6)
    low, middle = lowest_frames(quats), middles(quats)
    assert len(low) == len(middle)
    assert np.abs(low - middle).max() < 25
