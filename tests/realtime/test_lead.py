"""The automatic lead: what it adds up to, how it moves, and that it needs nothing but frames and commands."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyanticip._core import Lead
from pyanticip.controls import Smoothing
from pyanticip.errors import MotionError, OptionError
from realtime.control.commands import Commands
from realtime.mapping.mixer import Mixer
from realtime.rig import Rig, load_rig
from realtime.sources.replay import Command
from realtime.stage import build_mixer
from realtime.step.base import StepResult

SPRING = [1000.0 * Smoothing().lag] * 8
NONE = [0.0] * 8


def test_the_lag_of_a_spring_is_that_of_a_ramp_it_follows():
    for setting in (Smoothing(), Smoothing(half_life=0.1), Smoothing("none")):
        mixer = Mixer(smoothing=[setting] * 8)
        for n in range(2000):
            step = StepResult(np.full((8, 5), 0.0005 * n), np.zeros((2, 25)), np.zeros(7), 0.0, emit=False)
            value = mixer.play(step, [0.5] * 7, 0.001)[0][0] / 0.5
        # A spring that is told a value holds it over its step: half a step beside the ramp's own lag.
        assert 1.999 - value == pytest.approx(setting.lag, abs=0.0011)


def learned(lead: Lead, amount: float, trust: list[float] | tuple[()]) -> list[float]:
    lead.learn(amount, np.reshape(trust, (8, 3)).tolist() if trust else None)
    return lead.leads


def test_an_automatic_lead_is_the_way_and_what_lags():
    plain = learned(Lead("auto", NONE), 1.0, ())
    assert len(set(plain)) == 1
    told = Lead("auto", NONE, sound_ms=40.0, delay_ms=25.0)
    assert learned(told, 1.0, ()) == [pytest.approx(lead + 65.0) for lead in plain]
    assert told.way_ms == pytest.approx(65.0)
    smoothed = Lead("auto", SPRING)
    assert learned(smoothed, 1.0, ()) == [pytest.approx(lead + 1000.0 * Smoothing().lag) for lead in plain]
    assert learned(Lead("auto", SPRING), 0.0, ()) == plain
    assert learned(Lead(120.0, SPRING, sound_ms=40.0), 1.0, [0.0] * 24) == [120.0] * 8
    assert max(learned(Lead("auto", NONE, sound_ms=1000.0), 1.0, ())) == 400.0


def test_nothing_is_read_farther_ahead_than_there_is_skill():
    lead = Lead("auto", NONE, sound_ms=100.0)
    full = learned(lead, 1.0, [1.0] * 24)[0]
    assert 100.0 < full < 200.0
    # Full skill 100 ms ahead, none at 200: linear between, and half of it is enough.
    trust = [1.0, 0.0, 0.0] * 4 + [0.25] * 12
    some = learned(Lead("auto", NONE, sound_ms=100.0), 1.0, trust)
    assert some[0] == pytest.approx(full * min((200.0 - full) / 100.0 / 0.5, 1.0))
    assert some[7] == pytest.approx(full / 2)
    assert learned(Lead("auto", NONE, sound_ms=100.0), 1.0, [0.0] * 24) == [0.0] * 8


@given(
    st.lists(
        st.tuples(st.floats(0, 60), st.floats(0, 1), st.sampled_from([None, 0.0, 30.0, 300.0])), min_size=2
    )
)
def test_it_never_jumps_and_is_the_same_again(moves):
    def leads():
        lead = Lead("auto", SPRING)
        for age, trust, sound in moves:
            lead.hear(age)
            if sound is not None:
                lead.sound_ms = sound
            yield list(learned(lead, 1.0, [trust] * 24))

    first = list(leads())
    assert list(leads()) == first
    for before, after in pairwise(first):
        assert all(abs(b - a) <= 0.5 + 1e-9 for a, b in zip(before, after, strict=True))
        assert all(0.0 <= b <= 400.0 for b in after)


def test_the_age_of_frames_is_followed_only_when_it_has_changed():
    lead = Lead("auto", NONE)
    ways = []
    for n in range(1000):
        lead.hear(10.0 + n % 2)
        ways.append(lead.way_ms)
    assert len(set(ways)) < 8
    assert ways[-1] == pytest.approx(10.5, abs=3.1)


def test_it_is_on_by_default_and_can_be_told(tmp_path, stage):
    assert Rig().lead_ms == "auto"
    assert build_mixer(Rig()).lead_ms == "auto"
    file = tmp_path / "rig.toml"
    file.write_text("lead_ms = 40\n[source]\ndelay_ms = 30\n[[osc]]\nlatency_ms = 50\n")
    mixer = build_mixer(load_rig(file))
    assert (mixer.lead_ms, mixer.sound_ms) == (40.0, 50.0)
    mixer.lead_ms = "auto"
    assert mixer.lead.way_ms == pytest.approx(80.0)
    here = stage()
    commands = Commands(here.pipeline)
    assert commands.obey("lead_ms", "auto") == "auto"
    assert commands.obey("sound_ms", 35) == "35"
    assert here.pipeline.mixer.lead_ms == "auto"
    so_far = commands.so_far(5)
    assert Command(5, "lead_ms", ("auto",)) in so_far
    assert Command(5, "sound_ms", (35.0,)) in so_far
    other = stage()
    again = Commands(other.pipeline)
    for command in so_far:
        again.again(command)
    assert other.pipeline.mixer.settings == here.pipeline.mixer.settings
    for wrong in ("later", 500, float("nan")):
        with pytest.raises(OptionError, match="lead_ms: expected"):
            commands.obey("lead_ms", wrong)
    with pytest.raises(OptionError, match="sound_ms: expected"):
        commands.obey("sound_ms", -1)
    for wrong in ("soon", "-1", "401"):
        file.write_text(f'lead_ms = "{wrong}"\n')
        with pytest.raises(MotionError, match="lead_ms") as caught:
            load_rig(file)
        assert "\n" not in str(caught.value)


def test_a_mixer_without_a_rig_reads_now():
    assert Mixer().lead_ms == 0.0
