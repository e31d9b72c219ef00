"""Scoring of announcements: pairing, leads, edges of clips, and the instrument's rule."""

import itertools

import numpy as np
import pytest

from pyanticip.controls import CANCEL, EventTrigger, LastMoment
from training.evaluate.beat import by_kind, f1_interval
from training.evaluate.events import Announcements, announce, pair, score_clip
from training.tasks.motion.scores import EventScore, Predictions
from training.teacher.kinematic_targets import EDGE


def said_of(hazards, gate=1.0):
    frames = len(hazards)
    return Predictions(
        np.zeros((frames, 8, 5), np.float32),
        hazards.astype(np.float32),
        np.zeros((frames, 7), np.float32),
        np.full(frames, gate, np.float32),
    )


def sure_of(events, frames=200):
    """Hazards of a model that knows the onsets."""
    hazards = np.full((frames, 2, 25), 1e-4)
    for event in events:
        for t in range(max(event - 25, 0), event):
            hazards[t, 0, event - t - 1] = 0.97
    return hazards


def test_pairs_are_as_many_as_there_can_be():
    rng = np.random.default_rng(0)
    for _ in range(200):
        n, m = rng.integers(0, 5, 2)
        times = np.sort(rng.uniform(0, 12, n))
        reports = Announcements(times - rng.uniform(0, 6, n), times)
        true = np.sort(rng.choice(13, size=m, replace=False))
        found = pair(reports, true, 3.0, 2.5)
        allowed = {
            (i, j)
            for i in range(n)
            for j in range(m)
            if abs(times[i] - true[j]) <= 2.5 and true[j] - reports.decided[i] >= 3.0
        }
        assert set(found) <= allowed
        best = 0
        for size in range(min(n, m) + 1):
            for chosen in itertools.permutations(range(n), size):
                for events in itertools.combinations(range(m), size):
                    if all(p in allowed for p in zip(chosen, events, strict=True)):
                        best = size
        assert len(found) == best


@pytest.mark.parametrize("time", [50.0, 50.2, 50.5, 50.7])
def test_every_announced_time_matches_as_many_frames(time):
    reports = Announcements(np.array([40.0]), np.array([time]))
    matching = [event for event in range(100) if pair(reports, np.array([event]), 0.0, 2.5)]
    assert matching == list(range(matching[0], matching[0] + 5))
    assert abs(np.mean(matching) - time) <= 0.5


def test_a_decision_that_comes_too_late_is_no_hit_however_exact():
    true = np.array([100])
    exact = Announcements(np.array([97.0]), np.array([100.0]))
    assert score_clip(exact, true, 200, lead=3.0)[0] == EventScore(1, 1, 1)
    assert score_clip(exact, true, 200, lead=5.0)[0] == EventScore(0, 1, 1)
    late = Announcements(np.array([104.0]), np.array([104.0]))
    assert score_clip(late, true, 200)[0].hits == 0
    assert score_clip(late, true, 200, tolerance=4.5)[1].tolist() == [-4.0]


def test_the_edges_count_neither_for_nor_against():
    true = np.array([EDGE - 1, 100])
    reports = Announcements(np.array([EDGE - 6.0, 95.0]), np.array([EDGE + 1.0, 100.0]))
    assert score_clip(reports, true, 200)[0] == EventScore(1, 1, 1)
    # The first and the last scored frame count, their outer neighbours do not, for events and announcements.
    for frame, counts in ((EDGE - 1, 0), (EDGE, 1), (200 - EDGE - 1, 1), (200 - EDGE, 0)):
        there = Announcements(np.array([frame - 5.0]), np.array([float(frame)]))
        assert score_clip(there, np.array([frame]), 200)[0] == EventScore(counts, counts, counts)
        none = np.array([], dtype=np.int64)
        assert score_clip(there, none, 200)[0] == EventScore(0, counts, 0)
    lonely = Announcements(np.array([60.0]), np.array([64.0]))
    assert score_clip(lonely, true, 200)[0] == EventScore(0, 1, 1)


@pytest.mark.parametrize("lead_ms", [0, 100, 200])
def test_a_model_that_knows_scores_one(lead_ms):
    events = np.array([60, 90, 130])
    lead = lead_ms // 20
    by_trigger = announce(said_of(sure_of(events)), 0, EventTrigger(reach_ms=lead_ms + 60.0))
    assert score_clip(by_trigger, events, 200, lead)[0] == EventScore(3, 3, 3)


def test_the_live_rule_is_the_one_that_plays():
    rng = np.random.default_rng(3)
    hazards = np.zeros((1000, 2, 25), np.float32)
    for event in rng.choice(np.arange(30, 1000), 40, replace=False):
        # Of three one is cancelled 80 ms before, one 160 ms.
        for b in range(4 * (event % 3), 25):
            hazards[event - 1 - b, :, b] = 0.8
    said = said_of(hazards, gate=0.9)
    trigger, expected, called_off = LastMoment(lead_ms=100.0), [], []
    for t in range(1000):
        for name, _, ahead in trigger.step(said.hazards[t], float(said.gate[t]), 100.0, 0.02):
            if name == "onset":
                expected.append((t, t + ahead * 50.0))
            elif name == "onset/cancel":
                gone = min(expected, key=lambda one: abs(one[1] - t - ahead * 50.0))
                called_off.append(gone[1] - t >= 5.0)
                if called_off[-1]:  # else it was too late
                    expected.remove(gone)
    found = announce(said, 0, lead_ms=100.0)
    assert set(called_off) == {False, True}
    np.testing.assert_allclose(np.column_stack([found.decided, found.times]), expected)


def test_each_kind_of_movement_has_its_row(example_of):
    clips = [example_of(200, seed=n, subject=f"0{n}") for n in range(4)]
    reports = [Announcements(c.onsets - 5.0, c.onsets + 1.0) for c in clips]
    kinds = ["idle", "walking"] * 2
    rows = by_kind(clips, kinds, reports, system="x", event=0, lead_ms=100)
    assert [row["kind"] for row in rows] == ["walking", "idle"]
    true = [len(c.onsets[(c.onsets >= EDGE) & (c.onsets < 200 - EDGE)]) for c in clips]
    assert [row["true"] for row in rows] == [true[1] + true[3], true[0] + true[2]]
    assert all(row["f1"] == 1.0 and row["median_lead_ms"] == 100.0 for row in rows)
    late = by_kind(clips, kinds, reports, system="x", event=0, lead_ms=120)
    assert [row["f1"] for row in late] == [0.0, 0.0]


def test_the_interval_of_f1_widens_with_what_subjects_differ():
    alike = [EventScore(8, 10, 10)] * 6
    low, high = f1_interval(alike, list("aabbcc"))
    assert low == pytest.approx(0.8)
    assert high == pytest.approx(0.8)
    low, high = f1_interval([EventScore(10, 10, 10), EventScore(0, 10, 10)], ["a", "b"])
    assert (low, high) == (0.0, 1.0)
    assert f1_interval([EventScore(8, 10, 10)], ["a"]) == (None, None)


class Told(EventTrigger):
    """A trigger that returns given events frame by frame."""

    def __init__(self, *frames):
        super().__init__()
        self.left = list(frames)

    def reset(self):
        pass

    def step(self, hazards, gate, lead_ms, dt):
        return self.left.pop(0)


@pytest.mark.parametrize(("ahead", "left"), [(0.34, [7]), (0.08, [20]), (0.3, [7]), (0.1, [20])])
def test_what_is_called_off_is_what_was_to_come_about_then(ahead, left):
    first, second = ("onset", 1.0, 0.4), ("onset", 1.0, 0.1)  # frame 20, and frame 2 + 5
    trigger = Told([first], [], [second], [(f"onset{CANCEL}", 0.0, ahead)], [])
    announced = announce(said_of(np.zeros((5, 2, 25))), 0, trigger)
    np.testing.assert_allclose(announced.times, left)
    np.testing.assert_array_equal(announced.decided, [2.0 if left == [7] else 0.0])


@pytest.mark.parametrize(("lead_ms", "left"), [(300, 0), (320, 1), (0, 0)])
def test_what_is_called_off_after_the_lead_was_announced(lead_ms, left):
    trigger = Told(
        [("onset", 1.0, 0.4)], [], [], [], [], [(f"onset{CANCEL}", 0.0, 0.3)]
    )  # 15 frames before 20
    announced = announce(said_of(np.zeros((6, 2, 25))), 0, trigger, lead_ms=lead_ms)
    assert len(announced) == left
