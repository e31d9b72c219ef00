"""Queued events of a voice: played at their sample for any block size, and cancelled in time."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.wire import message

from realtime.voice.event_queue import EventQueue
from realtime.voice.osc_input import VoiceInput
from realtime.voice.synth import VoicePlayer


@dataclass
class RecordingVoice:
    """A voice that records the sample of each event."""

    sample_rate: float = 48_000.0
    latency: int = 0
    position: int = 0
    hits: list[tuple[int, int]] = field(default_factory=list)

    def set(self, index: int, value: float) -> None: ...

    def params(self, values: Any) -> None: ...

    def event(self, index: int, strength: float, seconds: float) -> None:
        self.hits.append((index, self.position + round(seconds * self.sample_rate)))

    def fade(self, value: float, seconds: float) -> None: ...

    def render(self, samples: int) -> np.ndarray:
        self.position += samples
        return np.zeros((samples, 2), np.float32)


@given(
    st.lists(st.tuples(st.integers(0, 1), st.floats(0, 1)), max_size=20),
    st.lists(st.integers(1, 4000), min_size=1),
)
def test_events_play_at_their_sample_with_any_block_size(events, blocks):
    voice = RecordingVoice()
    strokes = EventQueue(voice)
    for index, seconds in events:
        strokes.strike(index, 1.0, seconds)
    for samples in [*blocks, 48_001]:
        strokes.release(samples)
        voice.render(samples)
    assert sorted(voice.hits) == sorted((index, round(seconds * 48_000)) for index, seconds in events)


def test_only_the_matching_event_is_cancelled() -> None:
    voice = RecordingVoice()
    strokes = EventQueue(voice)
    for index, seconds in ((0, 0.10), (0, 0.15), (1, 0.15)):
        strokes.strike(index, 1.0, seconds)
    strokes.release(960)
    voice.render(960)
    assert strokes.cancel(0, 0.125)
    assert not strokes.cancel(0, 0.125)
    assert not strokes.cancel(1, 0.06)
    strokes.release(48_000)
    assert voice.hits == [(0, 4800), (1, 7200)]


def test_the_voice_handles_cancellations() -> None:

    voice_input = VoiceInput()
    (struck,) = voice_input.decode(message("/anticip/event/onset", 0.5, 0.2))
    (off,) = voice_input.decode(message("/anticip/event/onset/cancel", 0.15))
    assert struck == ("event", 0, 0.5, pytest.approx(0.2))
    assert off == ("cancel", 0, 0.0, pytest.approx(0.15))
    assert voice_input.decode(message("/anticip/event/onset/cancel", float("nan"))) == []
    for commands, hits in (([struck], 1), ([struck, off], 0)):
        voice = RecordingVoice()
        player = VoicePlayer(voice)
        for block in range(40):
            now = 1.0 + 0.01 * block
            for command in commands:
                if block == (0 if command is struck else 5):
                    player.push([command], now)
            player.render(480, now)
        assert len(voice.hits) == hits
