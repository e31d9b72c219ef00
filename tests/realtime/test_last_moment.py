"""The last-moment rule: events are sent at the last moment or when certain, never within their own lead."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pyanticip.controls import EventTrigger, LastMoment
from pyanticip.errors import ShapeError
from realtime.rig import load_rig

HAZARDS = hnp.arrays(np.float64, (2, 25), elements=st.floats(0, 1))


def beat(bin_, chance):
    rows = np.zeros((2, 25))
    rows[0, bin_] = chance
    return rows


def approach(rule, chance, gate, lead_ms):
    """Events for a beat that comes closer by one bin per frame: frames before it, and seconds ahead."""
    return [
        (bin_, ahead)
        for bin_ in range(24, -1, -1)
        for name, _, ahead in rule.step(beat(bin_, chance), gate, lead_ms, 0.02)
        if name == "onset"
    ]


@pytest.mark.parametrize("lead_ms", [0, 100, 200, 400])
@pytest.mark.parametrize("gate", [0.0, 1.0])
def test_a_likely_event_is_announced_at_the_last_moment(lead_ms, gate):
    ((bin_, ahead),) = approach(LastMoment(), 0.6, gate, lead_ms)
    # It is in the last of the five bins after the lead, the first that can contain it.
    assert lead_ms / 20 <= bin_ <= lead_ms / 20 + 4
    assert ahead == pytest.approx((bin_ + 1) * 0.02)
    assert not approach(LastMoment(), 0.3, gate, lead_ms)


@pytest.mark.parametrize("lead_ms", [200, 300, 400])
def test_an_event_that_becomes_likely_late_is_announced_late(lead_ms):
    def grows(least, near):
        """Events for a beat whose hazard is ``least`` this far ahead, and more from bin ``near`` on."""
        rule = LastMoment(lead_ms=100.0)
        steps = [
            rule.step(beat(b, 0.7 if b < near else least), 0.0, lead_ms, 0.02) for b in range(24, -1, -1)
        ]
        return [ahead for lines in steps for name, _, ahead in lines if name == "onset"]

    assert grows(0.6, 0) == [pytest.approx(lead_ms / 1000 + 0.1)], "sure: as early as wished"
    assert grows(0.3, 12) == [pytest.approx(0.24)], "as soon as it is sure"
    assert grows(0.5, 0) == [pytest.approx(0.2)], "at its own last moment"
    assert grows(0.3, 0) == []


def test_the_longer_of_both_leads_counts():
    for frames, own, holds in ((0, 100, 100), (40, 100, 100), (200, 100, 200), (200, 0, 200)):
        ((_, ahead),) = approach(LastMoment(lead_ms=own), 0.6, 1.0, frames)
        assert ahead == pytest.approx(holds / 1000 + 0.1)
    ((_, desk_ahead),) = approach(load_rig().events.build(), 0.6, 1.0, 0)
    assert desk_ahead == pytest.approx(0.2)


@pytest.mark.parametrize("lead_ms", [0, 100, 200])
def test_a_certain_event_is_announced_early_as_the_gate_decides(lead_ms):
    lines = {gate: approach(LastMoment(), 0.97, gate, lead_ms) for gate in (0.0, 0.5, 1.0)}
    assert all(len(one) == 1 for one in lines.values())
    at = {gate: bin_ for gate, ((bin_, _),) in lines.items()}
    assert at[1.0] == min(lead_ms // 20 + 11, 24)
    assert at[1.0] - at[0.0] == 5
    assert at[0.0] < at[0.5] < at[1.0]
    for ((bin_, ahead),) in lines.values():
        assert ahead == pytest.approx((bin_ + 1) * 0.02)


@given(
    rows=st.lists(HAZARDS, min_size=1, max_size=40),
    gates=st.lists(st.floats(0, 1), min_size=40, max_size=40),
    lead_ms=st.floats(0, 400),
    own_ms=st.floats(0, 400),
)
def test_no_beat_is_nearer_than_its_lead_and_phrases_use_the_usual_rule(rows, gates, lead_ms, own_ms):
    rule, usual, last = LastMoment(lead_ms=own_ms), EventTrigger(), -1.0
    for t, (hazards, gate) in enumerate(zip(rows, gates, strict=False)):
        lines = rule.step(hazards, gate, lead_ms, 0.02)
        phrases = [event for event in usual.step(hazards, gate, lead_ms, 0.02) if event[0] == "phrase"]
        assert [event for event in lines if event[0] == "phrase"] == phrases
        for name, strength, ahead in lines:
            if name == "onset":
                assert 0.4 <= strength <= 1.0
                assert own_ms / 1000 <= ahead + 1e-9
                assert 0.0 < ahead <= 0.5
                assert t * 0.02 + ahead - last >= -1e-9 or last < 0
                last = t * 0.02 + ahead
            elif name == "onset/cancel":
                # A cancelled event frees its time.
                assert strength < 0.15
                assert ahead >= 0.06
                last = -1.0


def test_a_beat_is_announced_once_until_its_refractory_time_is_over():
    rule = LastMoment()
    assert len(rule.step(beat(2, 0.8), 0.0, 0, 0.02)) == 1
    # Until the announced moment, 60 ms ahead, and the pause are over.
    lines = [len(rule.step(beat(2, 0.8), 0.0, 0, 0.02)) for _ in range(10)]
    assert lines == [0] * 8 + [1, 0]
    rule.reset()
    assert len(rule.step(beat(2, 0.8), 0.0, 0, 0.02)) == 1


def test_of_equally_likely_bins_the_nearest_counts():
    rows = np.zeros((2, 25))
    rows[0, 4], rows[0, 9] = 0.5, 1.0
    ((_, chance, ahead),) = LastMoment().step(rows, 0.0, 0, 0.02)
    assert (chance, ahead) == (pytest.approx(0.5), pytest.approx(0.1))


def test_the_time_is_interpolated_between_bins():
    rows = np.zeros((2, 25))
    rows[0, 2], rows[0, 3] = 0.25, 1.0
    ((_, _, ahead),) = LastMoment().step(rows, 0.0, 0, 0.02)
    assert ahead == pytest.approx(0.25 * 0.06 + 0.75 * 0.08)


def test_an_event_that_vanishes_is_cancelled_in_time_and_may_be_announced_again():
    def goes(frames, gone):
        """Events from the first frame on for a beat 200 ms ahead that vanishes in frame ``gone``."""
        rule = LastMoment(lead_ms=100.0)
        return [rule.step(beat(9 - t, 0.0 if t >= gone else 0.6), 0.0, 0, 0.02) for t in range(frames)]

    assert goes(9, 99) == [[("onset", 0.6, pytest.approx(0.2))], *[[]] * 8]
    for gone in range(1, 8):
        lines = [(t, event) for t, events in enumerate(goes(9, gone)) for event in events]
        assert lines == [
            (0, ("onset", 0.6, pytest.approx(0.2))),
            (gone, ("onset/cancel", 0.0, pytest.approx(0.2 - 0.02 * gone))),
        ]
    # 40 ms before it is too late.
    assert goes(9, 8)[1:] == [[]] * 8
    rule = LastMoment(lead_ms=100.0)
    assert len(rule.step(beat(9, 0.6), 0.0, 0, 0.02)) == 1
    again = rule.step(beat(5, 0.6), 0.0, 0, 0.02)
    assert again == []
    (off,) = rule.step(beat(24, 0.6), 0.0, 0, 0.02)
    assert off[0] == "onset/cancel"
    assert [name for name, *_ in rule.step(beat(9, 0.6), 0.0, 0, 0.02)] == ["onset"]


def test_hazards_beyond_0_to_1_are_clipped():
    rows = np.full((2, 25), np.nan)
    rows[0, 3] = 7.0
    ((name, chance, _),) = [e for e in LastMoment().step(rows, 1.0, 0, 0.02) if e[0] == "onset"]
    assert (name, chance) == ("onset", 1.0)
    short = LastMoment().step([[0.5, 0.5], [0.0, 0.0]], 1.0, 200, 0.02)
    assert [name for name, _, _ in short] == ["onset"]
    with pytest.raises(ShapeError, match="hazards: expected numbers of shape"):
        LastMoment().step(np.zeros((3, 25)), 1.0, 0, 0.02)


def test_a_rig_chooses_the_rule_and_its_numbers(tmp_path):
    usual = load_rig().events.build()
    assert isinstance(usual, LastMoment)
    assert usual.lead_ms == 100.0
    file = tmp_path / "rig.toml"
    file.write_text('[events]\nrule = "reach"\n')
    assert type(load_rig(file).events.build()) is EventTrigger
    file.write_text("[events]\nlead_ms = 0\nsure = 0.9\nmax_buffer = 3\nthreshold.onset = 0.3\n")
    rig = load_rig(file)
    rule = rig.events.build()
    assert isinstance(rule, LastMoment)
    assert (rule.sure, rule.max_buffer) == (0.9, 3)
    assert len(rule.step(beat(2, 0.35), 0.0, 0, 0.02)) == 1
