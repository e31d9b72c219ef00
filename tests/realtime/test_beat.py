"""An external beat that replaces the body's, set by a command or by a sink's session."""

import math
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from support.playing import Playing
from support.wire import arrived, messages, port_of, udp

from pyanticip.errors import OptionError
from realtime.bench.performer import mocopi_datagrams
from realtime.rig import Rig
from realtime.sinks.base import ControlFrame, LeadingSink
from realtime.sinks.config import OscConfig
from realtime.sinks.osc import OscSink
from realtime.sources.replay import Datagram, play_offline

Play = Callable[..., Playing]
RIG = Rig.model_validate({"model": {"enabled": False}, "osc": []})
SKELETON, FRAMES = mocopi_datagrams(60)


class Session(LeadingSink):
    """A sink with a session that has the beat ``session_beat``; it stores the show's beats."""

    name = "session"
    trouble = ""
    session_beat: tuple[float, float] | None = None

    def __init__(self) -> None:
        self.beats: list[tuple[float, float, float]] = []

    def beat(self) -> tuple[float, float] | None:
        return self.session_beat

    def announce(self, extras: Any) -> None: ...

    def send(self, frame: ControlFrame) -> None:
        if frame.seq >= 0:
            self.beats.append(frame.tempo)

    def counters(self) -> dict[str, int]:
        return {}

    def close(self) -> None: ...


def moves(show: Playing) -> None:
    """Ten frames of a suit."""
    show.pipeline.feed(SKELETON, 0)
    for n in range(10):
        show.pipeline.feed(FRAMES[n], n * 20_000_000)


def test_a_commanded_beat_leads_until_it_is_released_also_in_a_replay(play: Play) -> None:
    session, other = Session(), Session()
    first = play(RIG, sinks=[session])
    for wrong in ((500,), (0,), ("fast",), (120, "late"), (120, 2.5), (120.0, -0.1)):
        with pytest.raises(OptionError, match="tempo"):
            first.do("tempo", *wrong)
    assert first.do("tempo", 120.0, 0.25) == "120"
    initial = first.commands.state_as_commands(0)
    moves(first)
    # At two beats a second, a frame is a twenty-fifth of a beat.
    for n, (bpm, phase, trust) in enumerate(session.beats):
        assert (bpm, trust) == (120.0, 1.0)
        assert phase == pytest.approx((0.25 + n / 25) % 1.0)
    assert len(session.beats) == 10
    assert "tempo=120" in first.pipeline.status()
    for commands in (first.recorded, initial):
        again = play(RIG, sinks=[other])
        again.replays(commands)
        moves(again)
        assert other.beats == session.beats
        other.beats.clear()
    assert first.do("tempo") == "the body leads"
    assert first.pipeline.tempo[2] == 0.0
    again.replays(first.recorded)
    assert again.pipeline.tempo == first.pipeline.tempo


def test_a_buffered_frame_has_the_beat_of_the_moment_it_is_sent(play: Play) -> None:
    session = Session()
    rig = Rig.model_validate({"source": {"buffer_ms": 60}, "model": {"enabled": False}, "osc": []})
    show = play(rig, sinks=[session])
    show.do("tempo", 120.0)
    sent: list[float] = []
    session.send = lambda frame: sent.append(frame.tempo[1] - show.pipeline.clock.now_ns() / 5e8 % 1.0)
    play_offline(
        (Datagram(n * 20_000_000, one) for n, one in enumerate([SKELETON, *FRAMES])),
        show.pipeline.clock,
        show.pipeline.feed,
    )
    assert len(sent) > 50
    off = np.abs((np.array(sent) + 0.5) % 1.0 - 0.5)
    # The first frames are sent with the datagram after their turn.
    assert off.max() < 0.041
    assert (off < 1e-6).sum() > 30


def test_a_session_leads_and_its_beat_is_recorded_when_it_changes(play: Play) -> None:
    session, behind = Session(), Session()
    show = play(RIG, sinks=[session, behind])
    queried: list[Session] = []
    behind.beat = lambda: queried.append(behind)
    show.pipeline.clock.advance_to(1_440_000_000)  # three beats at 125 a minute
    look = show.commands.follow_beat
    look()
    assert show.recorded == [], "nobody is there"
    steps = ((120.0, 0.5), 1), ((120.05, 0.51), 1), ((120.0, 0.6), 2), ((125.0, 0.6), 3), ((600.0, 0.0), 3)
    for beat, recorded in steps:
        session.session_beat = beat
        look()
        assert len(show.recorded) == recorded, beat
    assert show.pipeline.leading_beat == (125.0, pytest.approx(0.6))
    session.session_beat = None
    look()
    assert show.pipeline.leading_beat == (125.0, pytest.approx(0.6)), "it goes on by itself"
    session.session_beat = 125.0, math.nan
    look()
    assert show.pipeline.leading_beat == (125.0, pytest.approx(0.6)), "what is no phase is no beat"
    session.session_beat = 125.0, 8.6
    look()
    assert len(show.recorded) == 3, "a count of beats is the same phase"
    assert len(queried) == 9, "each is asked, whoever leads"
    session.beat = Mock(side_effect=ValueError("gone"))
    behind.beat = lambda: (90.0, 0.0)
    look()
    assert show.pipeline.leading_beat == (90.0, pytest.approx(0.84))
    assert show.pipeline.counts["errors"] == 1


def test_the_tempo_alone_is_sent_four_times_a_second_while_trusted() -> None:
    with udp() as ear:
        options = {"port": port_of(ear), "send": ["bpm"], "addresses": {"bpm": "/Hydrogen/BPM"}}
        sink = OscSink(OscConfig.model_validate(options))
        for n in range(100):
            tempo = 112.5, 0.25, 0.4 if n < 50 else 0.6
            sink.send(ControlFrame(n, n / 50, [0.5] * 7, [0.5] * 8, tempo=tempo, t_ns=n * 20_000_000))
        sink.close()
        sent = [messages(packet) for packet in arrived(ear)]
    assert sent == [{"/Hydrogen/BPM": [112.5]}] * 4
