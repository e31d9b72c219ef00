"""The automatic lead in a show: on by default, reported, and restored by a recording."""

import numpy as np
import pytest

from pyanticip.controls import Smoothing
from pyanticip.errors import MotionError, OptionError
from realtime.control.commands import Commands
from realtime.mapping.mixer import Mixer
from realtime.rig import Rig, load_rig
from realtime.sources.replay import Command
from realtime.stage import build_mixer
from realtime.step.base import StepResult


def test_the_lag_of_a_spring_is_that_of_a_ramp_it_follows():
    for setting in (Smoothing(), Smoothing(half_life=0.1), Smoothing(kind="none")):
        mixer = Mixer(smoothing=[setting] * 8)
        for n in range(2000):
            step = StepResult(np.full((8, 5), 0.0005 * n), np.zeros((2, 25)), np.zeros(7), 0.0)
            value = mixer.play(step, [0.5] * 7, 0.001)[0][0] / 0.5
        # A spring holds its target over a step: half a step in addition to its lag behind a ramp.
        assert 1.999 - value == pytest.approx(setting.lag, abs=0.0011)


def test_it_is_on_by_default_and_can_be_told(tmp_path, stage):
    assert Rig().lead_ms == "auto"
    assert build_mixer(Rig()).lead_ms == "auto"
    file = tmp_path / "rig.toml"
    file.write_text("lead_ms = 40\n[source]\ndelay_ms = 30\n[[osc]]\nlatency_ms = 50\n")
    mixer = build_mixer(load_rig(file))
    assert (mixer.lead_ms, mixer.sound_ms) == (40.0, 50.0)
    for port, sound_ms in (("", 50.0), ('port = "virtual"\n', 80.0)):
        file.write_text(f"[[osc]]\nlatency_ms = 50\n[midi]\n{port}latency_ms = 80\n")
        assert build_mixer(load_rig(file)).sound_ms == sound_ms, "of the slowest receiver that there is"
    file.write_text("lead_ms = 40\n[source]\ndelay_ms = 30\n[[osc]]\nlatency_ms = 50\n")
    with pytest.raises(OptionError, match=r"\Alead_ms: expected 0 to 400 or auto, got \[[^\n]{,199}\Z"):
        mixer.lead_ms = np.full((9, 9), np.inf)
    mixer.lead_ms = "auto"
    assert mixer.lead.event_lead_ms == pytest.approx(80.0)
    here = stage()
    commands = Commands(here.pipeline)
    assert commands.obey("lead_ms", "auto") == "auto"
    assert commands.obey("sound_ms", 35) == "35"
    assert here.pipeline.mixer.lead_ms == "auto"
    so_far = commands.state_as_commands(5)
    assert Command(5, "lead_ms", ("auto",)) in so_far
    assert Command(5, "sound_ms", (35.0,)) in so_far
    other = stage()
    again = Commands(other.pipeline)
    for command in so_far:
        again.replay_command(command)
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


def test_what_the_voice_says_is_followed_unless_it_was_set_by_hand(stage):
    here = stage()
    commands = Commands(here.pipeline, rig=Rig.model_validate({"osc": [{"latency_ms": 30}]}))
    mixer = here.pipeline.mixer
    # Less than a receiver's latency is ignored, as is a small change.
    for lines, known in ((20.0, 0.0), (60.0, 60.0), (61.0, 60.0), (80.0, 80.0)):
        commands.follow_sound(lines)
        assert mixer.sound_ms == known
    assert commands.obey("sound_ms", 200) == "200"
    commands.follow_sound(80.0)
    assert mixer.sound_ms == 200.0
    with pytest.raises(OptionError, match="sound_ms: expected"):
        commands.obey("sound_ms", "soon")
    assert commands.obey("sound_ms", "auto") == "30"
    commands.follow_sound(80.0)
    assert mixer.sound_ms == 80.0
